"""Output for programs: one JSON object per line, with the contract's field names and times as RFC 3339."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC
from typing import Any, Final

import click
from google.protobuf import json_format
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.cli.output import Check, Diagnosis
from nomemory.cli.terminal import json_line
from nomemory.client.messages import role_name
from nomemory.client.prompt_block import oldest_first
from nomemory.client.search_hits import LexicalHit, lexical_hits
from nomemory.importing.upload import Summary
from nomemory.v1 import message_pb2, recall_service_pb2, server_service_pb2
from nomemory.v1 import query_service_pb2 as query

Json = dict[str, object]

_OPTIONAL: Final = ("name", "conversation_id", "retracted_by")


def message_record(message: message_pb2.ChatMessage) -> Json:
    """Return a message as `nomemory import` takes it. Empty optional fields are left out.

    So is an empty user: the messages of a recall do not name theirs.
    """
    record: Json = {"user_id": message.user_id} if message.user_id else {}
    record |= {
        "message_id": message.message_id,
        "ts": rfc3339(message.ts),
        "role": role_name(message.role),
        "content": message.content,
    }
    record.update({field: getattr(message, field) for field in _OPTIONAL if getattr(message, field)})
    if message.HasField("expire_ts"):
        record["expire_ts"] = rfc3339(message.expire_ts)
    if message.retracts:
        record["retracts"] = list(message.retracts)
    if message.metadata:
        record["metadata"] = dict(sorted(message.metadata.items()))
    return record


def neighbor_records(reply: query.GetNeighborsResponse) -> Iterator[Json]:
    """Return messages; that of the anchor says so."""
    for place, message in enumerate(reply.items):
        yield message_record(message) | ({"anchor": True} if place == reply.anchor_index else {})


def lexical_record(hit: LexicalHit) -> Json:
    """Return a hit: the message, its score and, if asked for, its highlight."""
    record = {**message_record(hit.message), "score": round(hit.score, 6)}
    if hit.highlight is not None:
        record["highlight"] = whole_record(hit.highlight)
    return record


def semantic_record(item: query.SemanticItem) -> Json:
    """Return a hit: the message and its score."""
    return {**message_record(item.message), "semantic_score": round(item.score, 6)}


def hybrid_records(reply: query.HybridSearchResponse) -> Iterator[Json]:
    """Return the hits; on each stands what holds of the answer as a whole, and how that was found out."""
    answered = {
        "sufficiency": round(reply.sufficiency, 6),
        "speaker_matched": reply.speaker_matched,
        "semantic_unavailable": reply.semantic_unavailable,
        "embedding_model": reply.embedding_model,
    }
    for item in reply.items:
        yield hybrid_record(item) | answered


def hybrid_record(item: query.HybridItem) -> Json:
    """Return a hit: the message, its score and, if asked for, what that is made of."""
    record = {**message_record(item.message), "score": round(item.score, 6)}
    if item.HasField("explanation"):
        made_of = item.explanation
        record["explanation"] = {
            "semantic_score": round(made_of.semantic_score, 6),
            "lexical_score": round(made_of.lexical_score, 6),
            "coverage": round(made_of.coverage, 6),
            "components": {part.name: round(part.value, 6) for part in made_of.components},
        }
    return record


def server_info_record(reply: server_service_pb2.GetServerInfoResponse) -> Json:
    """Return the whole description; `reads` is null where the server does not say how busy it is."""
    return whole_record(reply) | ({} if reply.HasField("reads") else {"reads": None})


def summary_record(summary: Summary) -> Json:
    """Return what became of a file."""
    record: Json = {"file": summary.source, "format": summary.format, "dry_run": summary.dry_run}
    record |= asdict(summary.tally)
    record |= {"ignored_fields": dict(sorted(summary.ignored.items())), "write_token": summary.write_token}
    return record | ({"rejects": str(summary.rejects)} if summary.rejects else {})


def check_record(check: Check) -> Json:
    """Return what a check found."""
    return {"check": check.name, "state": check.state, "finding": check.finding, "advice": check.advice}


def recall_record(reply: recall_service_pb2.RecallResponse) -> Json:
    """Return the answer of a recall in the contract's form, but for messages and roles. Empty fields are left out.

    `evidence` stands best first; `oldest_first` has its ids in the order of time.
    """
    record = _contract_form(reply)
    if reply.evidence:
        record["evidence"] = [
            _contract_form(item) | {"message": message_record(item.message)} for item in reply.evidence
        ]
        record["oldest_first"] = [item.message.message_id for item in oldest_first(reply)]
    if reply.limits.role:
        record["limits"] = _contract_form(reply.limits) | {"role": role_name(reply.limits.role)}
    return record


def context_record(reply: recall_service_pb2.BuildContextResponse) -> Json:
    """Return a context in the contract's form, but for messages. Empty fields are left out."""
    sections = {"recent": reply.recent, "related": reply.related}
    shown = {
        name: [_contract_form(item) | {"message": message_record(item.message)} for item in items]
        for name, items in sections.items()
        if items
    }
    return _contract_form(reply) | shown


def rfc3339(ts: Timestamp) -> str:
    """Write a time, with microseconds only where it has some."""
    return ts.ToDatetime(tzinfo=UTC).isoformat().replace("+00:00", "Z")


def _contract_form(message: Message) -> Json:
    form: Json = json_format.MessageToDict(message, preserving_proto_field_name=True)
    return form


def whole_record(message: Message) -> Json:
    """Return every field by its name, empty ones too. A time and a part that are not set are left out."""
    return {
        field.name: _value(getattr(message, field.name))
        for field in message.DESCRIPTOR.fields
        if not field.has_presence or message.HasField(field.name)
    }


def _value(value: object) -> object:
    match value:
        case Timestamp():
            return rfc3339(value)
        case Message():
            return whole_record(value)
        case Sequence() if not isinstance(value, str):
            return [_value(one) for one in value]
        case _:
            return value


_RECORDS: Final[Mapping[type, Callable[[Any], Iterable[Json]]]] = {
    query.ListMessagesResponse: lambda reply: map(message_record, reply.items),
    query.GetNeighborsResponse: neighbor_records,
    query.LexicalSearchResponse: lambda reply: map(lexical_record, lexical_hits(reply)),
    query.SemanticSearchResponse: lambda reply: map(semantic_record, reply.items),
    query.HybridSearchResponse: hybrid_records,
    query.ListConversationsResponse: lambda reply: map(whole_record, reply.conversations),
    query.ListUsersResponse: lambda reply: map(whole_record, reply.users),
    server_service_pb2.GetServerInfoResponse: lambda reply: [server_info_record(reply)],
    recall_service_pb2.RecallResponse: lambda reply: [recall_record(reply)],
    recall_service_pb2.BuildContextResponse: lambda reply: [context_record(reply)],
    Diagnosis: lambda diagnosis: map(check_record, diagnosis.checks),
    Summary: lambda summary: [summary_record(summary)],
}
"""The lines of what is not one line with all fields."""


class JsonLines:
    """Writes records to standard output; what is not a record goes to standard error."""

    def show(self, answer: object, *, explain: bool = False) -> None:  # noqa: ARG002 - all of it anyway
        """Write a line for each thing that an answer has."""
        for record in _records(answer):
            click.echo(json_line(record))

    def step(self, step: recall_service_pb2.RecallStep) -> None:
        """Write nothing: the answer has the steps."""

    def nothing(self) -> None:
        """Write nothing."""

    def more(self, cursor: str) -> None:
        """Name the cursor on standard error."""
        self.notice(f"next_cursor: {cursor}")

    def notice(self, text: str) -> None:
        """Write a text to standard error."""
        click.echo(text, err=True)


def _records(answer: Any) -> Iterable[Json]:  # noqa: ANN401 - by its type
    if type(answer) in _RECORDS:
        return _RECORDS[type(answer)](answer)
    return [whole_record(answer) if isinstance(answer, Message) else asdict(answer)]
