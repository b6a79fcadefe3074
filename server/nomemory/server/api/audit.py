"""The audit log of writes, deletions, erasures, and recalls on behalf of a user.

An audit entry contains the caller, the action, the users, the number of messages and the request id, but no message
content and no query text. The server writes an audit entry after it has committed the change, at any log level.
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
from nomemory.server.runtime.stderr import open_log_stream
from nomemory.server.store.results import WriteOutcome
from nomemory.spans.span import get_trace_fields

Action = Literal["write", "import", "delete", "delete-matching", "erase", "recall"]

_CHANGES: Final = frozenset({WriteOutcome.CREATED, WriteOutcome.REPLACED})


@dataclass(slots=True)
class AuditedRecall:
    """The outcome of a recall, for its audit entry.

    `messages` is the number of messages that the recall retrieved; None if the recall failed.
    """

    messages: int | None = None


@dataclass(frozen=True, slots=True)
class AuditLog:
    """Writes audit entries to the log stream, if the audit log is enabled."""

    is_on: bool = True

    def record_write(
        self, context: CallContext, action: Action, messages: Iterable[Message], outcomes: Iterable[WriteOutcome]
    ) -> None:
        """Record the write of a batch.

        The audit entry lists all users of the batch, even users without changed messages.
        """
        if self.is_on:
            users: Counter[str] = Counter()
            for message, outcome in zip(messages, outcomes, strict=True):
                users[message.user_id] += outcome in _CHANGES
            self._write_record(context, action, users)

    def record_deletion(self, context: CallContext, action: Action, user_id: str, messages: int) -> None:
        """Record a deletion that has been committed."""
        self._write_record(context, action, {user_id: messages})

    @contextmanager
    def record_recall(self, context: CallContext) -> Iterator[AuditedRecall]:
        """Record a recall when the context ends, unless the caller authenticated with the user's own token."""
        audited = AuditedRecall()
        try:
            yield audited
        finally:
            bound = context.bound
            if bound is not None and bound.identity != "token":
                done = audited.messages is not None
                users = {bound.user_id: audited.messages or 0}
                self._write_record(context, "recall", users, identity=bound.identity, done=done)

    def _write_record(self, context: CallContext, action: Action, users: Mapping[str, int], **fields: object) -> None:
        if not self.is_on:
            return
        entry = {
            "action": action,
            "caller": context.caller.name,
            **fields,
            "users": users,
            "messages": sum(users.values()),
            "request_id": context.request_id,
            "event": "audit",
            "level": "info",
            **get_trace_fields(),
            "timestamp": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
        }
        stream = open_log_stream()
        stream.write(orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE))
        stream.flush()
