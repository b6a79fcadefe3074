"""Calls of the page, passed on to a server over gRPC with the credentials of whoever runs the inspector."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

import grpc

from nomemory.client.identity import Identity, with_credential
from nomemory.server.identity.metadata import Metadata
from nomemory.server.web.errors import ErrorStatus, error_of

_PASSED_ON: Final = ("x-user-id", "x-user-id-bin", "x-request-id")
"""What of a request's headers the server gets: never its credentials, which are the inspector's own."""


class ForwardedError(Exception):
    """The server has answered with an error, or does not answer."""

    def __init__(self, error: ErrorStatus) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(frozen=True)
class _Ended(grpc.Status):
    """How a call ended, as gRPC's servers have it."""

    code: grpc.StatusCode
    details: str
    trailing_metadata: tuple[tuple[str, str | bytes], ...]


@dataclass(frozen=True, slots=True)
class Forwarding:
    """Passes calls on, as bytes.

    Attributes:
        channel: leads to the server.
        identity: whose credentials they get.
        seconds: how long a call may take.
    """

    channel: grpc.aio.Channel
    identity: Identity
    seconds: float

    async def unary(self, path: str, request: bytes, headers: Metadata) -> bytes:
        """Return the reply of a method that has one.

        Raises:
            ForwardedError: there is none.
        """
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self.channel.unary_unary(path)
        call = method(request, timeout=self.seconds, metadata=self._metadata(headers))
        try:
            return await call
        except grpc.aio.AioRpcError as error:
            raise _forwarded(error) from None

    async def stream(self, path: str, request: bytes, headers: Metadata) -> AsyncGenerator[bytes, None]:
        """Return the replies of a method that streams them. Whoever stops early cancels the call.

        Raises:
            ForwardedError: the stream ends with an error.
        """
        method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self.channel.unary_stream(path)
        call = method(request, timeout=self.seconds, metadata=self._metadata(headers))
        try:
            async for reply in call:
                yield reply
        except grpc.aio.AioRpcError as error:
            raise _forwarded(error) from None
        finally:
            call.cancel()

    def _metadata(self, headers: Metadata) -> grpc.aio.Metadata:
        passed = [(name, value) for name, value in headers if name in _PASSED_ON]
        return grpc.aio.Metadata(*with_credential((), self.identity), *passed)


def _forwarded(error: grpc.aio.AioRpcError) -> ForwardedError:
    trailing = tuple(error.trailing_metadata() or ())
    return ForwardedError(error_of(_Ended(error.code(), error.details() or "", trailing)))
