"""Output for programs: one JSON object per line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from nomemory.cli import json_record
from nomemory.cli.check import Check
from nomemory.cli.export_summary import Exported
from nomemory.cli.import_summary import Summary
from nomemory.cli.json_text import json_line
from nomemory.client.hits import LexicalHit
from nomemory.v1 import ingest_service_pb2, message_pb2, query_service_pb2, recall_service_pb2, server_service_pb2


class JsonLines:
    """Writes records to standard output; what is not a record goes to standard error."""

    def messages(self, messages: Iterable[message_pb2.ChatMessage]) -> None:
        """Write a line for each message."""
        for message in messages:
            _write(json_record.message_record(message))

    def neighbors(self, reply: query_service_pb2.GetNeighborsResponse) -> None:
        """Write a line for each message; that of the anchor says so."""
        for place, message in enumerate(reply.items):
            anchor: json_record.Json = {"anchor": True} if place == reply.anchor_index else {}
            _write(json_record.message_record(message) | anchor)

    def lexical(self, hits: Iterable[LexicalHit]) -> None:
        """Write a line for each hit."""
        for hit in hits:
            _write(json_record.lexical_record(hit))

    def semantic(self, items: Iterable[query_service_pb2.SemanticItem]) -> None:
        """Write a line for each hit."""
        for item in items:
            _write(json_record.semantic_record(item))

    def hybrid(self, reply: query_service_pb2.HybridSearchResponse) -> None:
        """Write a line for each hit; what holds of the answer as a whole stands on each."""
        for item in reply.items:
            _write(json_record.hybrid_record(item) | json_record.answered_record(reply))

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
        _write(json_record.status_record(reply))

    def server_info(self, reply: server_service_pb2.GetServerInfoResponse) -> None:
        """Write the whole description as one line."""
        _write(json_record.server_info_record(reply))

    def deleted(self, reply: ingest_service_pb2.DeleteMessagesResponse) -> None:
        """Write the receipt."""
        _write(json_record.deletion_record(reply))

    def erased(self, reply: ingest_service_pb2.EraseUserResponse) -> None:
        """Write the receipt."""
        _write(json_record.erasure_record(reply))

    def count(self, messages: int) -> None:
        """Write the count."""
        _write({"count": messages})

    def conversations(self, conversations: Sequence[query_service_pb2.Conversation]) -> None:
        """Write a line for each conversation."""
        for conversation in conversations:
            _write(json_record.conversation_record(conversation))

    def users(self, users: Sequence[query_service_pb2.UserSummary]) -> None:
        """Write a line for each user."""
        for user in users:
            _write({"user_id": user.user_id, "message_count": user.message_count})

    def exported(self, exported: Exported) -> None:
        """Write the receipt."""
        _write({"file": exported.file, "users": exported.users, "messages": exported.messages})

    def imported(self, summary: Summary) -> None:
        """Write a line for each file."""
        _write(json_record.summary_record(summary))

    def recall_step(self, step: recall_service_pb2.RecallStep, *, explain: bool) -> None:
        """Write nothing: the answer has the steps."""

    def recalled(self, reply: recall_service_pb2.RecallResponse, *, explain: bool) -> None:  # noqa: ARG002 - all of it anyway
        """Write the whole answer as one line."""
        _write(json_record.recall_record(reply))

    def checks(self, checks: Sequence[Check]) -> None:
        """Write a line for each check."""
        for check in checks:
            _write(json_record.check_record(check))


def _write(record: json_record.Json) -> None:
    click.echo(json_line(record))
