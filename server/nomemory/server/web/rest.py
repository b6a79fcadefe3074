"""The dialect of the annotations: resources, JSON, events.

Streams of replies: as server-sent events, or as lines of JSON.

A body in lines.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

from google.protobuf.message import Message as ProtoMessage
from google.protobuf.message_factory import GetMessageClass

from nomemory.server.faults import Fault, Reason
from nomemory.server.settings import Settings
from nomemory.server.web.bindings import Match
from nomemory.server.web.dialect import StreamForm
from nomemory.server.web.encoding import dump, encode
from nomemory.server.web.errors import ErrorStatus, RefusedError, error_json
from nomemory.server.web.exchange import Exchange
from nomemory.server.web.request_message import in_turn, message_of_json, request_message

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


_BLANK_LINES: Final = re.compile(rb"\n\s*\n")


async def lines_of(parts: AsyncIterator[bytes], most: int) -> AsyncIterator[bytes]:
    """Return the lines of a body, each as soon as it is whole; blank ones are left out.

    Raises:
        Fault: REQUEST_TOO_LARGE, a line has more than so many bytes.
    """
    pending: list[bytes] = []
    size = 0
    async for part in parts:
        await asyncio.sleep(0)  # many parts may be there already
        *whole, rest = _BLANK_LINES.sub(b"\n", part).split(b"\n")
        for line in whole:
            _refuse_long(size + len(line), most)
            joined = b"".join([*pending, line]).strip()
            pending, size = [], 0
            if joined:
                yield joined
        pending.append(rest)
        size += len(rest)
        _refuse_long(size, most)
    if last := b"".join(pending).strip():
        yield last


def _refuse_long(size: int, most: int) -> None:
    if size > most:
        raise Fault(Reason.ERROR_REASON_REQUEST_TOO_LARGE, f"a line is larger than {most} bytes")


JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"


def media_type_of(exchange: Exchange) -> str:
    """Return the media type of a body, without its parameters, in small letters.

    Raises:
        Fault: MALFORMED_REQUEST.
    """
    return exchange.header(b"content-type").partition(";")[0].strip().lower()


def refuse_encoding(exchange: Exchange, name: bytes = b"content-encoding") -> None:
    """Refuse a body that is compressed: what it weighs would not be known before it is unpacked.

    Raises:
        RefusedError: 415.
    """
    if exchange.header(name) not in {"", "identity"}:
        raise unsupported("bodies must not be compressed")


def unsupported(message: str) -> RefusedError:
    """Make the refusal of a media type."""
    return RefusedError(Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, message), 415)


@dataclass(frozen=True)
class RestDialect:
    """One call by a binding. `accept` is the header."""

    match: Match
    settings: Settings
    accept: str
    media_type: str = JSON

    @classmethod
    def of(cls, exchange: Exchange, match: Match, settings: Settings) -> RestDialect:
        """Look at the headers of a request.

        Raises:
            RefusedError: its body is of a media type that is not taken, or should not be there.
            Fault: MALFORMED_REQUEST.
        """
        if exchange.has_body:
            if not match.binding.body:
                raise RefusedError(Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, "this request has no body"))
            refuse_encoding(exchange)
            # A form or a text could come from any web page, without its browser asking the server first.
            taken = (LINES, JSON) if match.binding.method.client_streaming else (JSON,)
            if media_type_of(exchange) not in taken:
                raise unsupported(f"send the body as {' or '.join(taken)}")
        return cls(match, settings, exchange.header(b"accept"))

    async def requests(self, exchange: Exchange) -> AsyncIterator[bytes]:
        """Return the requests: of an upload one for each line, else one."""
        if media_type_of(exchange) == LINES and exchange.has_body:
            most, of = self.settings.limits.request_max_bytes, self.match.binding.method.input_type
            async for line in lines_of(exchange.parts(), most):
                yield await in_turn(line, partial(message_of_json, of, line, self.settings))
        else:
            yield await self._request(exchange)

    async def _request(self, exchange: Exchange) -> bytes:
        async with exchange.body(self.settings.limits.request_max_bytes) as body:
            return await in_turn(body, partial(request_message, self.match, exchange.query, body, self.settings))

    def reply(self, raw: bytes) -> bytes:
        """Return a reply as JSON."""
        return encode(self._reply_class.FromString(raw))

    def error(self, error: ErrorStatus) -> tuple[int, str, bytes]:
        """Return an error."""
        return PLAIN.error(error)

    def stream(self) -> StreamForm:
        """Return how a stream is written: as events, or as lines where the client asks for those."""
        return LineStream(self.reply) if LINES in self.accept else EventStream(self.reply)

    @cached_property
    def _reply_class(self) -> type[ProtoMessage]:
        return GetMessageClass(self.match.binding.method.output_type)


@dataclass(frozen=True, slots=True)
class PlainError:
    """Writes errors as JSON."""

    def error(self, error: ErrorStatus) -> tuple[int, str, bytes]:
        """Return the status, the media type and the body of an answer."""
        return error.http_status, JSON, dump(error_json(error))


PLAIN: Final = PlainError()
