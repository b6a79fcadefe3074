"""The dialect of the annotations: resources, JSON, events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

from google.protobuf.message import Message as ProtoMessage
from google.protobuf.message_factory import GetMessageClass

from nomemory.server.faults import Fault, Reason
from nomemory.server.settings import Settings
from nomemory.server.web.dialect import StreamForm
from nomemory.server.web.encoding import dump, encode
from nomemory.server.web.error_json import error_json
from nomemory.server.web.errors import ErrorStatus, RefusedError
from nomemory.server.web.event_stream import EventStream, LineStream
from nomemory.server.web.exchange import Exchange
from nomemory.server.web.lines import lines_of
from nomemory.server.web.request_message import in_turn, message_of_json, request_message
from nomemory.server.web.routes import Match

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
            body = await exchange.body(self.settings.limits.request_max_bytes) if exchange.has_body else b""
            yield await in_turn(body, partial(request_message, self.match, exchange.query, body, self.settings))

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
