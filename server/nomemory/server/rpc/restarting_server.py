"""A gRPC server that begins again where gRPC ends it unasked.

grpcio reads the path of a call as UTF-8 in the loop that accepts all calls. A path that is none ends the loop, and the
server with it. No interceptor runs before that. So what is left is to listen again at once, at the same address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import grpc
import structlog

from nomemory.server.identity.settings_error import IdentitySettingsError
from nomemory.server.listen_address import ListenAddress, ListenAddressError

_log = structlog.get_logger("rpc")

_RETRY_S = 0.2
"""The system may need a moment to give the port back."""

Listen = Callable[[ListenAddress], tuple[grpc.aio.Server, ListenAddress]]


class RestartingServer:
    """Serves until it is stopped.

    Args:
        listen: makes a server that listens at an address; returns it and the address that was bound. Raises
            ListenAddressError, or IdentitySettingsError if the files for TLS cannot be used.
    """

    def __init__(self, listen: Listen) -> None:
        self._listen = listen
        self._server: grpc.aio.Server | None = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self, address: ListenAddress) -> ListenAddress:
        """Serve; return the address that was bound.

        Raises:
            ListenAddressError: the port is taken.
        """
        self._server, bound = self._listen(address)
        await self._server.start()
        self._watch = asyncio.create_task(self._serve_again(self._server, bound))
        return bound

    async def stop(self, grace_s: float) -> None:
        """Let calls in flight finish, for so many seconds."""
        if self._watch is not None:
            self._watch.cancel()
        if self._server is not None:
            await self._server.stop(grace_s)

    async def _serve_again(self, server: grpc.aio.Server, bound: ListenAddress) -> None:
        while True:
            ended = asyncio.ensure_future(server.wait_for_termination())
            await asyncio.wait([ended])
            error = ended.exception()
            _log.error("gRPC ended the server, which serves again", kind=type(error).__name__)
            self._server = server = await self._listening(bound)
            await server.start()

    async def _listening(self, bound: ListenAddress) -> grpc.aio.Server:
        while True:
            try:
                server, _ = self._listen(bound)
            except (ListenAddressError, IdentitySettingsError) as error:
                _log.error("the server cannot listen again yet", kind=type(error).__name__)
                await asyncio.sleep(_RETRY_S)
            else:
                return server
