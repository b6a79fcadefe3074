"""Output for programs: one JSON object per line, with the contract's field names and times as RFC 3339."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC
from typing import Final

import click
from google.protobuf import json_format
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.cli.output import Check, Exported
from nomemory.cli.terminal import json_line
from nomemory.client.messages import LexicalHit, role_name
from nomemory.client.prompt import oldest_first
from nomemory.importing.upload import Summary
from nomemory.v1 import ingest_service_pb2, message_pb2, query_service_pb2, recall_service_pb2, server_service_pb2

Json = dict[str, object]

_OPTIONAL: Final = ("name", "conversation_id")


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
    if message.metadata:
        record["metadata"] = dict(sorted(message.metadata.items()))
    return record


def lexical_record(hit: LexicalHit) -> Json:
    """Return a hit: the message, its score and, if asked for, its highlight."""
    record = {**message_record(hit.message), "score": round(hit.score, 6)}
    if hit.highlight is not None:
        record["highlight"] = {
            "spans": [whole_record(span) for span in hit.highlight.spans],
            "snippet": whole_record(hit.highlight.snippet),
            "snippet_text": hit.highlight.snippet_text,
        }
    return record


def semantic_record(item: query_service_pb2.SemanticItem) -> Json:
    """Return a hit: the message and its score."""
    return {**message_record(item.message), "semantic_score": round(item.score, 6)}


def hybrid_record(item: query_service_pb2.HybridItem) -> Json:
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


def answered_record(reply: query_service_pb2.HybridSearchResponse) -> Json:
    """Return how likely it is that what was found answers the question, and how that was found out."""
    return {
        "sufficiency": round(reply.sufficiency, 6),
        "told_apart": reply.told_apart,
        "words_only": reply.words_only,
        "embedding_model": reply.embedding_model,
    }


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


class JsonLines:
    """Writes records to standard output; what is not a record goes to standard error."""

    def messages(self, messages: Iterable[message_pb2.ChatMessage]) -> None:
        """Write a line for each message."""
        for message in messages:
            _write(message_record(message))

    def neighbors(self, reply: query_service_pb2.GetNeighborsResponse) -> None:
        """Write a line for each message; that of the anchor says so."""
        for place, message in enumerate(reply.items):
            anchor: Json = {"anchor": True} if place == reply.anchor_index else {}
            _write(message_record(message) | anchor)

    def lexical(self, hits: Iterable[LexicalHit]) -> None:
        """Write a line for each hit."""
        for hit in hits:
            _write(lexical_record(hit))

    def semantic(self, items: Iterable[query_service_pb2.SemanticItem]) -> None:
        """Write a line for each hit."""
        for item in items:
            _write(semantic_record(item))

    def hybrid(self, reply: query_service_pb2.HybridSearchResponse) -> None:
        """Write a line for each hit; what holds of the answer as a whole stands on each."""
        for item in reply.items:
            _write(hybrid_record(item) | answered_record(reply))

    def nothing(self) -> None:
        """Write nothing."""

    def more(self, cursor: str) -> None:
        """Name the cursor on standard error."""
        click.echo(f"next_cursor: {cursor}", err=True)

    def notice(self, text: str) -> None:
        """Write a text to standard error."""
        click.echo(text, err=True)

    def status(self, reply: ingest_service_pb2.GetIndexStatusResponse) -> None:
        """Write the whole status as one line."""
        _write(whole_record(reply))

    def server_info(self, reply: server_service_pb2.GetServerInfoResponse) -> None:
        """Write the whole description as one line."""
        _write(server_info_record(reply))

    def deleted(self, reply: ingest_service_pb2.DeleteMessagesResponse) -> None:
        """Write the receipt."""
        _write(whole_record(reply))

    def erased(self, reply: ingest_service_pb2.EraseUserResponse) -> None:
        """Write the receipt."""
        _write(whole_record(reply))

    def count(self, messages: int) -> None:
        """Write the count."""
        _write({"count": messages})

    def conversations(self, conversations: Sequence[query_service_pb2.Conversation]) -> None:
        """Write a line for each conversation."""
        for conversation in conversations:
            _write(whole_record(conversation))

    def users(self, users: Sequence[query_service_pb2.UserSummary]) -> None:
        """Write a line for each user."""
        for user in users:
            _write(whole_record(user))

    def exported(self, exported: Exported) -> None:
        """Write the receipt."""
        _write(asdict(exported))

    def imported(self, summary: Summary) -> None:
        """Write a line for each file."""
        _write(summary_record(summary))

    def recall_step(self, step: recall_service_pb2.RecallStep, *, explain: bool) -> None:
        """Write nothing: the answer has the steps."""

    def recalled(self, reply: recall_service_pb2.RecallResponse, *, explain: bool) -> None:  # noqa: ARG002 - all of it anyway
        """Write the whole answer as one line."""
        _write(recall_record(reply))

    def checks(self, checks: Sequence[Check]) -> None:
        """Write a line for each check."""
        for check in checks:
            _write(check_record(check))


def _write(record: Json) -> None:
    click.echo(json_line(record))
