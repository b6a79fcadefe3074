"""The Connect protocol (connectrpc.com): `POST /nomemory.v1.QueryService/ListMessages`, in JSON or the binary format.

Single calls, and streams in envelopes: a byte of flags, four of length, the message. Requests cannot be compressed, and
replies are not.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from nomemory.server.faults import Fault, Reason
from nomemory.server.settings import Settings
from nomemory.server.web.dialect import StreamForm
from nomemory.server.web.encoding import as_json, dump, encode
from nomemory.server.web.errors import ErrorStatus
from nomemory.server.web.exchange import Exchange
from nomemory.server.web.request_message import in_turn, message_of_json
from nomemory.server.web.rest import media_type_of, refuse_encoding, unsupported

_SINGLE: Final = ("application/json", "application/proto")
_STREAMED: Final = ("application/connect+json", "application/connect+proto")
_HEAD_BYTES: Final = 5
_ENDS: Final = 0b10


@dataclass(frozen=True, slots=True)
class ConnectDialect:
    """One call of a method."""

    method: MethodDescriptor
    settings: Settings
    media_type: str

    @classmethod
    def of(cls, exchange: Exchange, method: MethodDescriptor, settings: Settings) -> ConnectDialect:
        """Look at the headers of a request.

        Raises:
            RefusedError: the body is of a media type that is not taken, or compressed.
            Fault: MALFORMED_REQUEST.
        """
        streams = method.client_streaming or method.server_streaming
        media_type, taken = media_type_of(exchange), _STREAMED if streams else _SINGLE
        if media_type not in taken:
            raise unsupported(f"send the body as {' or '.join(taken)}")
        refuse_encoding(exchange, b"connect-content-encoding" if streams else b"content-encoding")
        return cls(method, settings, media_type)

    async def requests(self, exchange: Exchange) -> AsyncIterator[bytes]:
        """Return the requests."""
        most = self.settings.limits.request_max_bytes
        if self.media_type in _SINGLE:
            yield await self._only_request(exchange, most)
            return
        async for raw in _messages(exchange.parts(), most):
            yield await self._request(raw)

    def reply(self, raw: bytes) -> bytes:
        """Return a single reply; that of an upload is a stream of one."""
        if not self.method.client_streaming:
            return self.payload(raw)
        form = self.stream()
        return form.reply(raw) + form.end()

    def error(self, error: ErrorStatus) -> tuple[int, str, bytes]:
        """Return an error; that of a stream is its end."""
        if self.media_type in _STREAMED:
            return 200, self.media_type, self.stream().error(error)
        return error.http_status, "application/json", dump(_error_json(error))

    def stream(self) -> StreamForm:
        """Return how a stream of replies is written."""
        return EnvelopeStream(self)

    async def _only_request(self, exchange: Exchange, most: int) -> bytes:
        async with exchange.body(most) as body:
            return await self._request(body)

    async def _request(self, raw: bytes) -> bytes:
        if not self.media_type.endswith("json"):
            return raw
        if not raw:
            return b""
        return await in_turn(raw, partial(message_of_json, self.method.input_type, raw, self.settings))

    def payload(self, raw: bytes) -> bytes:
        """Return a reply in the format of the request."""
        if not self.media_type.endswith("json"):
            return raw
        return encode(GetMessageClass(self.method.output_type).FromString(raw))


@dataclass(frozen=True, slots=True)
class EnvelopeStream:
    """Each reply in an envelope, then one that says how it ended."""

    dialect: ConnectDialect

    @property
    def media_type(self) -> str:
        """The media type of the request."""
        return self.dialect.media_type

    def reply(self, raw: bytes) -> bytes:
        """Return a reply."""
        return _envelope(0, self.dialect.payload(raw))

    def end(self) -> bytes:
        """Return the end of a stream that is whole."""
        return _envelope(_ENDS, b"{}")

    def error(self, error: ErrorStatus) -> bytes:
        """Return the end of a stream that is not."""
        return _envelope(_ENDS, dump({"error": _error_json(error)}))

    def beat(self) -> bytes:
        """Return nothing: the protocol has no sign of life."""
        return b""


def _envelope(flags: int, payload: bytes) -> bytes:
    return bytes([flags]) + len(payload).to_bytes(4, "big") + payload


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
            if size > most:
                raise Fault(Reason.ERROR_REASON_REQUEST_TOO_LARGE, f"a message is larger than {most} bytes")
            if len(pending) < _HEAD_BYTES + size:
                break
            message = bytes(pending[_HEAD_BYTES : _HEAD_BYTES + size])
            del pending[: _HEAD_BYTES + size]
            yield message
    if pending:
        raise Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, "an envelope is cut short")


def _error_json(error: ErrorStatus) -> dict[str, object]:
    details = [
        {
            "type": one.DESCRIPTOR.full_name,
            "value": base64.b64encode(one.SerializeToString()).decode().rstrip("="),
            "debug": as_json(one),
        }
        for one in error.details
    ]
    return {"code": error.code.lower(), "message": error.message, "details": details}
