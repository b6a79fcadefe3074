"""Streams of replies: as server-sent events, or as lines of JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nomemory.server.web.encoding import dump
from nomemory.server.web.error_json import error_json
from nomemory.server.web.errors import ErrorStatus

AsJson = Callable[[bytes], bytes]
"""Returns a reply, which comes in the binary format, as JSON."""


@dataclass(frozen=True, slots=True)
class EventStream:
    """Each reply is an event. An event `end` or `error` is the last one, so a stream that was cut off can be told."""

    as_json: AsJson
    media_type: str = "text/event-stream; charset=utf-8"

    def reply(self, raw: bytes) -> bytes:
        """Return a reply as an event. JSON has no line breaks."""
        return b"data: " + self.as_json(raw) + b"\n\n"

    def end(self) -> bytes:
        """Return the event of an end."""
        return b"event: end\ndata: {}\n\n"

    def error(self, error: ErrorStatus) -> bytes:
        """Return the event of an error."""
        return b"event: error\ndata: " + dump(error_json(error)) + b"\n\n"

    def beat(self) -> bytes:
        """Return a comment."""
        return b":\n\n"


@dataclass(frozen=True, slots=True)
class LineStream:
    """Each reply is a line. A line with `error` is the last one of a stream that failed."""

    as_json: AsJson
    media_type: str = "application/x-ndjson"

    def reply(self, raw: bytes) -> bytes:
        """Return a reply as a line."""
        return self.as_json(raw) + b"\n"

    def end(self) -> bytes:
        """Return nothing: the body's own end says it."""
        return b""

    def error(self, error: ErrorStatus) -> bytes:
        """Return the line of an error."""
        return dump(error_json(error)) + b"\n"

    def beat(self) -> bytes:
        """Return nothing: there is no line that means nothing."""
        return b""
