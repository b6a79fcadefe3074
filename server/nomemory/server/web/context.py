"""A call over HTTP as gRPC's handlers and interceptors see calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, NoReturn

import grpc

from nomemory.server.identity.caller import Metadata
from nomemory.server.web.exchange import Exchange


class CallEndedError(grpc.aio.AbortError):
    """A call was ended with a status: its context has it."""


class HttpContext(grpc.aio.ServicerContext[Any, Any]):
    """What handlers and interceptors know of a call, and how they end one.

    Attributes:
        way_in: what metrics call it.

    Args:
        exchange: the request.
        metadata: its headers.
        requests: the requests in it, in the binary format.
        timeout_s: what the client gives the call; None: it says nothing.
    """

    way_in = "http"

    def __init__(
        self,
        exchange: Exchange,
        metadata: Metadata,
        requests: AsyncIterator[bytes],
        timeout_s: float | None = None,
    ) -> None:
        self._exchange = exchange
        self._metadata = metadata
        self._requests = requests
        self._deadline = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        self._trailing: Metadata = ()
        self._code = grpc.StatusCode.OK
        self._details = ""

    async def read(self) -> Any:  # noqa: ANN401 - gRPC's own; EOF is no bytes
        """Return the next request; EOF: there is none."""
        return await anext(self._requests, grpc.aio.EOF)

    async def abort(
        self,
        code: grpc.StatusCode,
        details: str = "",
        trailing_metadata: Any = (),  # noqa: ANN401 - gRPC's stubs know two types
    ) -> NoReturn:
        """End the call with a status."""
        self._code, self._details = code, details
        self._trailing = tuple(trailing_metadata) or self._trailing
        raise CallEndedError

    async def abort_with_status(self, status: grpc.Status) -> NoReturn:
        """End the call with a status and its details."""
        await self.abort(status.code, status.details, status.trailing_metadata or ())

    def invocation_metadata(self) -> Any:  # noqa: ANN401 - gRPC's stubs know no tuples
        """Return the headers."""
        return self._metadata

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """Return the properties of the connection's other end."""
        return self._exchange.auth()

    def peer(self) -> str:
        """Return the connection."""
        return self._exchange.connection.peer

    def time_remaining(self) -> float | None:  # type: ignore[override]  # gRPC's own may be None, too
        """Return the seconds that the client leaves to the call; None: it says nothing."""
        return None if self._deadline is None else self._deadline - asyncio.get_running_loop().time()

    def set_trailing_metadata(self, trailing_metadata: Metadata) -> None:  # type: ignore[override]
        """Set what gRPC sends behind a reply. Over HTTP only what belongs to an error is sent."""
        self._trailing = tuple(trailing_metadata)

    def trailing_metadata(self) -> Any:  # noqa: ANN401 - gRPC's stubs know no tuples
        """Return it."""
        return self._trailing

    def set_code(self, code: grpc.StatusCode) -> None:
        """Set the code of the status."""
        self._code = code

    def set_details(self, details: str) -> None:
        """Set the sentence of the status."""
        self._details = details

    def code(self) -> grpc.StatusCode:
        """Return the code of the status."""
        return self._code

    def details(self) -> str:
        """Return the sentence of the status."""
        return self._details

    async def send_initial_metadata(self, initial_metadata: Metadata) -> None:  # type: ignore[override]
        """Do nothing: an answer over HTTP has its headers when it begins."""

    async def write(self, message: Any) -> NoReturn:  # noqa: ANN401 - gRPC's own
        """Refuse: methods of the contract return what they reply."""
        raise NotImplementedError

    def set_compression(self, compression: grpc.Compression) -> None:
        """Do nothing: answers are not compressed."""

    def disable_next_message_compression(self) -> None:
        """Do nothing: answers are not compressed."""

    def peer_identities(self) -> Iterable[bytes] | None:
        """Return None: who calls follows from `auth_context`."""

    def peer_identity_key(self) -> str | None:
        """Return None: who calls follows from `auth_context`."""
