"""The audit trail: a line for each write, deletion and erasure, and for each recall in somebody's name.

A line says who called, what for, whose messages it was about, how many, and in which request. It holds no content and
no query. It is written once the log has the change, whatever the level of the log is.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import orjson

from nomemory.server.log.protocol import Outcome
from nomemory.server.logs import process_fields
from nomemory.server.message import Message
from nomemory.server.rpc.call import Call
from nomemory.server.settings import Settings
from nomemory.server.standard_error import log_stream
from nomemory.server.structured_logs import get_logger
from nomemory.spans.span import trace_fields

Action = Literal["write", "import", "delete", "delete-matching", "erase", "recall"]

_CHANGES: Final = frozenset({Outcome.CREATED, Outcome.REPLACED})
_OWNER_ONLY: Final = 0o600
_log = get_logger("audit")


@dataclass(slots=True)
class Retrieved:
    """What a recall brought; None while it has brought nothing."""

    messages: int | None = None


class Audit:
    """Writes the lines.

    Args:
        append: takes a line as bytes, with its line break. None: nothing is written.
    """

    def __init__(self, append: Callable[[bytes], None] | None) -> None:
        self._append = append

    def stored(self, call: Call, action: Action, messages: Iterable[Message], outcomes: Iterable[Outcome]) -> None:
        """Note a batch that the log has. Who is named in it counts, also where nothing had to be changed."""
        if self._append is not None:
            users: Counter[str] = Counter()
            for message, outcome in zip(messages, outcomes, strict=True):
                users[message.user_id] += outcome in _CHANGES
            self._write(call, action, users)

    def removed(self, call: Call, action: Action, user_id: str, messages: int) -> None:
        """Note a deletion that the log has."""
        self._write(call, action, {user_id: messages})

    @contextmanager
    def recalling(self, call: Call) -> Iterator[Retrieved]:
        """Note a recall when the context is left, however it ends; not that of a user's own token."""
        retrieved = Retrieved()
        try:
            yield retrieved
        finally:
            bound = call.admission.bound
            if bound is not None and bound.identity != "token":
                done = retrieved.messages is not None
                users = {bound.user_id: retrieved.messages or 0}
                self._write(call, "recall", users, identity=bound.identity, done=done)

    def _write(self, call: Call, action: Action, users: Mapping[str, int], **more: object) -> None:
        if self._append is None:
            return
        line = {
            "action": action,
            "caller": call.admission.caller.name,
            **more,
            "users": users,
            "messages": sum(users.values()),
            "request_id": call.request_id,
            "event": "audit",
            "level": "info",
            **process_fields(),
            **trace_fields(),
            "timestamp": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
        }
        self._append(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


NO_AUDIT: Final = Audit(None)
"""Writes nothing."""


def audit_of(settings: Settings) -> Audit:
    """Return the audit trail of the settings.

    Raises:
        OSError: its file cannot be written.
    """
    if not settings.server.audit:
        return NO_AUDIT
    if settings.server.audit_file is None:
        return Audit(_to_log)
    file = AuditFile(settings.server.audit_file)
    file.check()
    return Audit(file.append)


@dataclass(frozen=True, slots=True)
class AuditFile:
    """A file that every process of a server appends to. It is opened for each line, so it can be moved away."""

    path: Path

    def check(self) -> None:
        """Make sure that it can be written.

        Raises:
            OSError: it cannot.
        """
        os.close(self._open())

    def append(self, line: bytes) -> None:
        """Append a line. Where that fails the line goes to the log: the change that it tells of has happened."""
        try:
            descriptor = self._open()
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)
        except OSError as error:
            _log.error("the audit file cannot be written", kind=type(error).__name__, path=str(self.path))
            _to_log(line)

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _OWNER_ONLY)


def _to_log(line: bytes) -> None:
    stream = log_stream()
    stream.write(line)
    stream.flush()
