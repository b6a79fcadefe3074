"""JSON Lines output, with the field names of the API and times in RFC 3339."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC
from typing import Any, Final

import click
from google.protobuf import json_format
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.cli.output import CheckResult, Diagnosis
from nomemory.cli.terminal import encode_json_line
from nomemory.client.messages import to_role_name
from nomemory.client.prompt_block import sort_evidence_by_time
from nomemory.client.search_hits import LexicalHit, lexical_hits
from nomemory.importing.upload import ImportSummary
from nomemory.v1 import message_pb2, recall_service_pb2, server_service_pb2
from nomemory.v1 import query_service_pb2 as query

Json = dict[str, object]

_OPTIONAL: Final = ("name", "conversation_id", "retracted_by")


def build_message_record(message: message_pb2.ChatMessage) -> Json:
    """Return a message in the format of `nomemory import`, without empty optional fields.

    `user_id` is also omitted if it is empty, as in the messages of a recall.
    """
    record: Json = {"user_id": message.user_id} if message.user_id else {}
    record |= {
        "message_id": message.message_id,
        "ts": format_rfc3339(message.ts),
        "role": to_role_name(message.role),
        "content": message.content,
    }
    record.update({field: getattr(message, field) for field in _OPTIONAL if getattr(message, field)})
    if message.HasField("expire_ts"):
        record["expire_ts"] = format_rfc3339(message.expire_ts)
    if message.retracts:
        record["retracts"] = list(message.retracts)
    if message.metadata:
        record["metadata"] = dict(sorted(message.metadata.items()))
    return record


def build_neighbor_records(reply: query.GetNeighborsResponse) -> Iterator[Json]:
    """Yield the messages around an anchor; the anchor message has the field `anchor`."""
    for index, message in enumerate(reply.items):
        yield build_message_record(message) | ({"anchor": True} if index == reply.anchor_index else {})


def build_lexical_record(hit: LexicalHit) -> Json:
    """Return a hit of a lexical search: the message, its score, and the highlight if there is one."""
    record = {**build_message_record(hit.message), "score": round(hit.score, 6)}
    if hit.highlight is not None:
        record["highlight"] = build_full_record(hit.highlight)
    return record


def build_semantic_record(item: query.SemanticItem) -> Json:
    """Return a hit of a semantic search: the message and its score."""
    return {**build_message_record(item.message), "semantic_score": round(item.score, 6)}


def build_hybrid_records(reply: query.HybridSearchResponse) -> Iterator[Json]:
    """Yield the hits of a hybrid search, each with the response fields that apply to all hits."""
    response_fields = {
        "sufficiency": round(reply.sufficiency, 6),
        "speaker_matched": reply.speaker_matched,
        "semantic_unavailable": reply.semantic_unavailable,
        "embedding_model": reply.embedding_model,
    }
    for item in reply.items:
        yield build_hybrid_record(item) | response_fields


def build_hybrid_record(item: query.HybridItem) -> Json:
    """Return a hit of a hybrid search: the message, its score, and the score components if requested."""
    record = {**build_message_record(item.message), "score": round(item.score, 6)}
    if item.HasField("explanation"):
        explanation = item.explanation
        record["explanation"] = {
            "semantic_score": round(explanation.semantic_score, 6),
            "lexical_score": round(explanation.lexical_score, 6),
            "coverage": round(explanation.coverage, 6),
            "components": {component.name: round(component.value, 6) for component in explanation.components},
        }
    return record


def build_server_info_record(reply: server_service_pb2.GetServerInfoResponse) -> Json:
    """Return all fields of the server info; `read_load` is null if the server does not report its load."""
    return build_full_record(reply) | ({} if reply.HasField("read_load") else {"read_load": None})


def build_summary_record(summary: ImportSummary) -> Json:
    """Return the import summary of a file."""
    record: Json = {"file": summary.source, "format": summary.format, "dry_run": summary.dry_run}
    record |= asdict(summary.counts)
    record |= {"ignored_fields": dict(sorted(summary.ignored.items())), "write_token": summary.write_token}
    return record | ({"rejects": str(summary.rejects)} if summary.rejects else {})


def build_check_result_record(check: CheckResult) -> Json:
    """Return the record of a doctor check."""
    return {"check": check.name, "state": check.state, "finding": check.finding, "advice": check.advice}


def build_recall_record(reply: recall_service_pb2.RecallResponse) -> Json:
    """Return a recall response with the field names of the API, without empty fields.

    Messages have the format of `nomemory import`, and roles have short names. `evidence` is in ranking order;
    `oldest_first` has its message ids in time order.
    """
    record = _to_dict(reply)
    if reply.evidence:
        record["evidence"] = [
            _to_dict(item) | {"message": build_message_record(item.message)} for item in reply.evidence
        ]
        record["oldest_first"] = [item.message.message_id for item in sort_evidence_by_time(reply)]
    if reply.limits.role:
        record["limits"] = _to_dict(reply.limits) | {"role": to_role_name(reply.limits.role)}
    return record


def build_context_record(reply: recall_service_pb2.BuildContextResponse) -> Json:
    """Return a context with the field names of the API, without empty fields.

    Messages have the format of `nomemory import`.
    """
    sections = {"recent": reply.recent, "related": reply.related}
    shown = {
        name: [_to_dict(item) | {"message": build_message_record(item.message)} for item in items]
        for name, items in sections.items()
        if items
    }
    return _to_dict(reply) | shown


def format_rfc3339(ts: Timestamp) -> str:
    """Return a time in RFC 3339, with microseconds only if they are not zero."""
    return ts.ToDatetime(tzinfo=UTC).isoformat().replace("+00:00", "Z")


def _to_dict(message: Message) -> Json:
    fields: Json = json_format.MessageToDict(message, preserving_proto_field_name=True)
    return fields


def build_full_record(message: Message) -> Json:
    """Return all fields of an API message, including empty ones, but without unset timestamps and nested messages."""
    return {
        field.name: _simplify_value(getattr(message, field.name))
        for field in message.DESCRIPTOR.fields
        if not field.has_presence or message.HasField(field.name)
    }


def _simplify_value(value: object) -> object:
    match value:
        case Timestamp():
            return format_rfc3339(value)
        case Message():
            return build_full_record(value)
        case Sequence() if not isinstance(value, str):
            return [_simplify_value(item) for item in value]
        case _:
            return value


_RECORDS: Final[Mapping[type, Callable[[Any], Iterable[Json]]]] = {
    query.ListMessagesResponse: lambda reply: map(build_message_record, reply.items),
    query.GetNeighborsResponse: build_neighbor_records,
    query.LexicalSearchResponse: lambda reply: map(build_lexical_record, lexical_hits(reply)),
    query.SemanticSearchResponse: lambda reply: map(build_semantic_record, reply.items),
    query.HybridSearchResponse: build_hybrid_records,
    query.ListConversationsResponse: lambda reply: map(build_full_record, reply.conversations),
    query.ListUsersResponse: lambda reply: map(build_full_record, reply.users),
    server_service_pb2.GetServerInfoResponse: lambda reply: [build_server_info_record(reply)],
    recall_service_pb2.RecallResponse: lambda reply: [build_recall_record(reply)],
    recall_service_pb2.BuildContextResponse: lambda reply: [build_context_record(reply)],
    Diagnosis: lambda diagnosis: map(build_check_result_record, diagnosis.checks),
    ImportSummary: lambda summary: [build_summary_record(summary)],
}
"""Converters for results that are not written as one record with all fields."""


class JsonLines:
    """Writes records to standard output and notices to standard error."""

    def show(self, answer: object, *, explain: bool = False) -> None:  # noqa: ARG002 - records always have all fields
        """Write each record of a result as a line of JSON."""
        for record in _answer_records(answer):
            click.echo(encode_json_line(record))

    def show_step(self, step: recall_service_pb2.RecallStep) -> None:
        """Write nothing, because the final record contains the steps."""

    def show_no_results(self) -> None:
        """Write nothing."""

    def show_cursor(self, cursor: str) -> None:
        """Write the cursor to standard error."""
        self.show_notice(f"next_cursor: {cursor}")

    def show_notice(self, text: str) -> None:
        """Write a notice to standard error."""
        click.echo(text, err=True)


def _answer_records(answer: Any) -> Iterable[Json]:  # noqa: ANN401 - by its type
    if type(answer) in _RECORDS:
        return _RECORDS[type(answer)](answer)
    return [build_full_record(answer) if isinstance(answer, Message) else asdict(answer)]
