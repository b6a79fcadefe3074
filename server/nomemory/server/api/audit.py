"""The audit trail: a line for each write, deletion and erasure, and for each recall in somebody's name.

A line says who called, what for, whose messages it was about, how many, and in which request. It holds no content and
no query. It is written once the log has the change, whatever the level of the log is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

import orjson

from nomemory.server.api.call import CallContext
from nomemory.server.message import Message
from nomemory.server.runtime.stderr import log_stream
from nomemory.server.store.results import WriteOutcome
from nomemory.spans.span import trace_fields

Action = Literal["write", "import", "delete", "delete-matching", "erase", "recall"]

_CHANGES: Final = frozenset({WriteOutcome.CREATED, WriteOutcome.REPLACED})


@dataclass(slots=True)
class AuditedRecall:
    """What a recall brought; None while it has brought nothing."""

    messages: int | None = None


@dataclass(frozen=True, slots=True)
class Audit:
    """Writes the lines to the log, if it is on."""

    is_on: bool = True

    def record_write(
        self, context: CallContext, action: Action, messages: Iterable[Message], outcomes: Iterable[WriteOutcome]
    ) -> None:
        """Note a batch that the log has. Who is named in it counts, also where nothing had to be changed."""
        if self.is_on:
            users: Counter[str] = Counter()
            for message, outcome in zip(messages, outcomes, strict=True):
                users[message.user_id] += outcome in _CHANGES
            self._write(context, action, users)

    def record_deletion(self, context: CallContext, action: Action, user_id: str, messages: int) -> None:
        """Note a deletion that the log has."""
        self._write(context, action, {user_id: messages})

    @contextmanager
    def record_recall(self, context: CallContext) -> Iterator[AuditedRecall]:
        """Note a recall when the context is left, however it ends; not that of a user's own token."""
        retrieved = AuditedRecall()
        try:
            yield retrieved
        finally:
            bound = context.bound
            if bound is not None and bound.identity != "token":
                done = retrieved.messages is not None
                users = {bound.user_id: retrieved.messages or 0}
                self._write(context, "recall", users, identity=bound.identity, done=done)

    def _write(self, context: CallContext, action: Action, users: Mapping[str, int], **more: object) -> None:
        if not self.is_on:
            return
        line = {
            "action": action,
            "caller": context.caller.name,
            **more,
            "users": users,
            "messages": sum(users.values()),
            "request_id": context.request_id,
            "event": "audit",
            "level": "info",
            **trace_fields(),
            "timestamp": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
        }
        stream = log_stream()
        stream.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        stream.flush()
