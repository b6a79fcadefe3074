"""How a call is spoken over HTTP: how its requests are read, its replies and its errors written.

By the annotations of the contract: resources, JSON, and streams as server-sent events or as lines of JSON.

By the Connect protocol (connectrpc.com): `POST /nomemory.v1.QueryService/ListMessages`, in JSON or the binary format.
Single calls, and streams in envelopes: a byte of flags, four of length, the message. Requests cannot be compressed, and
replies are not.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from nomemory.server.faults import Fault, Reason
from nomemory.server.settings import Settings
from nomemory.server.web.bindings import Match, in_turn, message_of_json, request_message
from nomemory.server.web.errors import ErrorStatus, RefusedError
from nomemory.server.web.exchange import Exchange, refuse_long
from nomemory.server.web.transcoding import as_json, dump, encode

JSON: Final = "application/json"
_LINES: Final = "application/x-ndjson"
_SINGLE: Final = (JSON, "application/proto")
_STREAMED: Final = ("application/connect+json", "application/connect+proto")
_HEAD_BYTES: Final = 5
_ENDS: Final = 0b10


ErrorForm = Callable[[ErrorStatus], tuple[int, str, bytes]]
"""Returns the status, the media type and the body of an answer that is an error."""


@dataclass(frozen=True, slots=True)
class StreamForm:
    """How a stream of replies is written.

    Attributes:
        media_type: the stream's.
        part: makes a part of the stream of a reply as `Dialect.reply` has it.
        end: ends a stream that is whole.
        failed: ends one that is not.
        beat: shows that a silent stream lives; empty: there is nothing that a client would pass over.
    """

    media_type: str
    part: Callable[[bytes], bytes]
    end: bytes
    failed: Callable[[ErrorStatus], bytes]
    beat: bytes = b""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one call is spoken.

    Attributes:
        requests: the requests in the binary format, each read when it is asked for. The stream raises faults.
        media_type: that of a single reply.
        reply: writes a reply, which comes in the binary format.
        stream: how a stream of replies is written.
        error: how an error is written.
    """

    requests: AsyncIterator[bytes]
    media_type: str
    reply: Callable[[bytes], bytes]
    stream: StreamForm
    error: ErrorForm


def plain_error(error: ErrorStatus) -> tuple[int, str, bytes]:
    """Return the status, the media type and the body of an answer that is an error, as most have it."""
    return error.http_status, JSON, dump(error.as_json())


_EVENTS: Final = StreamForm(
    "text/event-stream; charset=utf-8",
    lambda reply: b"data: %b\n\n" % reply,  # JSON has no line breaks
    b"event: end\ndata: {}\n\n",  # the last one, or an error is: so a stream that was cut off can be told
    lambda error: b"event: error\ndata: %b\n\n" % dump(error.as_json()),
    b":\n\n",
)
_IN_LINES: Final = StreamForm(_LINES, lambda reply: reply + b"\n", b"", lambda error: dump(error.as_json()) + b"\n")


def by_annotation(exchange: Exchange, match: Match, settings: Settings) -> Dialect:
    """Look at the headers of a request.

    Raises:
        RefusedError: its body is of a media type that is not taken.
        Fault: MALFORMED_REQUEST.
    """
    method, most = match.binding.method, settings.limits.request_max_bytes
    media_type = _media_type_of(exchange) if exchange.has_body else JSON
    if exchange.has_body:
        if not match.binding.has_body:
            raise Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, "this request has no body")
        # A form or a text could come from any web page, without its browser asking the server first.
        _refuse_others(media_type, (_LINES, JSON) if method.client_streaming else (JSON,))
        _refuse_encoding(exchange)
    if media_type == _LINES:
        requests = _each(lines_of(exchange.parts(), most), _read_json(method, settings))
    else:
        requests = _whole(exchange, most, lambda raw: request_message(match, exchange.query, raw, settings))
    stream = _IN_LINES if _LINES in exchange.header(b"accept") else _EVENTS
    return Dialect(requests, JSON, _write_json(method), stream, plain_error)


def by_connect(exchange: Exchange, method: MethodDescriptor, settings: Settings) -> Dialect:
    """Look at the headers of a request by the Connect protocol.

    Raises:
        RefusedError: the body is of a media type that is not taken, or compressed.
        Fault: MALFORMED_REQUEST.
    """
    media_type, most = _media_type_of(exchange), settings.limits.request_max_bytes
    streams = method.client_streaming or method.server_streaming
    _refuse_others(media_type, _STREAMED if streams else _SINGLE)
    _refuse_encoding(exchange, b"connect-content-encoding" if streams else b"content-encoding")
    is_json = media_type.endswith("json")
    read, write = (_read_json(method, settings), _write_json(method)) if is_json else (_as_it_is, _as_it_is)
    if not streams:
        return Dialect(_whole(exchange, most, read), media_type, write, _envelopes(media_type), _connect_error)
    stream = _envelopes(media_type)
    requests = _each(_messages(exchange.parts(), most), read)
    # The reply of an upload is a stream of one.
    reply = write if method.server_streaming else lambda raw: stream.part(write(raw)) + stream.end
    return Dialect(requests, media_type, reply, stream, lambda error: (200, media_type, stream.failed(error)))


def _media_type_of(exchange: Exchange) -> str:
    """Return the media type of a body, without its parameters, in small letters."""
    return exchange.header(b"content-type").partition(";")[0].strip().lower()


def _refuse_others(media_type: str, taken: tuple[str, ...]) -> None:
    if media_type not in taken:
        raise _unsupported(f"send the body as {' or '.join(taken)}")


def _refuse_encoding(exchange: Exchange, name: bytes = b"content-encoding") -> None:
    """Refuse a body that is compressed: what it weighs would not be known before it is unpacked."""
    if exchange.header(name) not in {"", "identity"}:
        raise _unsupported("bodies must not be compressed")


def _unsupported(message: str) -> RefusedError:
    return RefusedError(Reason.ERROR_REASON_MALFORMED_REQUEST, message, 415)


def _as_it_is(raw: bytes) -> bytes:
    return raw


def _read_json(method: MethodDescriptor, settings: Settings) -> Callable[[bytes], bytes]:
    return lambda raw: message_of_json(method.input_type, raw, settings) if raw else b""


def _write_json(method: MethodDescriptor) -> Callable[[bytes], bytes]:
    reply = GetMessageClass(method.output_type)
    return lambda raw: encode(reply.FromString(raw))


async def _whole(exchange: Exchange, most: int, read: Callable[[bytes], bytes]) -> AsyncIterator[bytes]:
    """Return the one request that a body is."""
    async with exchange.body(most) as body:
        request = await in_turn(body, read)
    yield request


async def _each(parts: AsyncIterator[bytes], read: Callable[[bytes], bytes]) -> AsyncIterator[bytes]:
    async for part in parts:
        yield await in_turn(part, read)


async def lines_of(parts: AsyncIterator[bytes], most: int) -> AsyncIterator[bytes]:
    """Return the lines of a body, each as soon as it is whole; blank ones are left out.

    Raises:
        Fault: REQUEST_TOO_LARGE, a line has more than so many bytes.
    """
    pending = bytearray()
    async for part in parts:
        await asyncio.sleep(0)  # many parts may be there already
        *whole, rest = part.split(b"\n")
        if whole:
            whole[0] = bytes(pending + whole[0])
            pending.clear()
        for line in filter(None, map(bytes.strip, whole)):
            refuse_long(len(line), most)
            yield line
        pending += rest
        refuse_long(len(pending), most)
    if last := pending.strip():
        yield bytes(last)


async def _messages(parts: AsyncIterator[bytes], most: int) -> AsyncIterator[bytes]:
    """Return what is in the envelopes of a body, each as soon as it is whole.

    Raises:
        Fault: MALFORMED_REQUEST, one is cut short or compressed; REQUEST_TOO_LARGE.
    """
    pending = bytearray()
    async for part in parts:
        pending += part
        while len(pending) >= _HEAD_BYTES:
            flags, size = pending[0], int.from_bytes(pending[1:_HEAD_BYTES], "big")
            if flags:
                raise Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, "envelopes must have no flags")
            refuse_long(size, most)
            if len(pending) < _HEAD_BYTES + size:
                break
            message = bytes(pending[_HEAD_BYTES : _HEAD_BYTES + size])
            del pending[: _HEAD_BYTES + size]
            yield message
    if pending:
        raise Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, "an envelope is cut short")


def _envelopes(media_type: str) -> StreamForm:
    return StreamForm(
        media_type,
        partial(_envelope, 0),
        _envelope(_ENDS, b"{}"),
        lambda error: _envelope(_ENDS, dump({"error": _connect_json(error)})),
    )


def _envelope(flags: int, payload: bytes) -> bytes:
    return bytes([flags]) + len(payload).to_bytes(4, "big") + payload


def _connect_error(error: ErrorStatus) -> tuple[int, str, bytes]:
    return error.http_status, JSON, dump(_connect_json(error))


def _connect_json(error: ErrorStatus) -> dict[str, object]:
    details = [
        {
            "type": one.DESCRIPTOR.full_name,
            "value": base64.b64encode(one.SerializeToString()).decode().rstrip("="),
            "debug": as_json(one),
        }
        for one in error.details
    ]
    return {"code": error.code.lower(), "message": error.message, "details": details}
