"""The NoMemory server behind the tools, over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc

from nomemory.client.errors import NoMemoryError, from_rpc_error
from nomemory.mcp.credentials import BoundCaller, Credential, Metadata, UserNotNamedError
from nomemory.v1 import server_service_pb2
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from nomemory.v1.recall_service_pb2_grpc import RecallServiceStub
from nomemory.v1.server_service_pb2_grpc import ServerServiceStub

_PAUSES_S: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""How long a call that met no server waits before the next try: a channel takes a moment to notice a new one."""


class Backend:
    """Calls a server over one channel. Each call has the credentials of the connection that it is made for.

    Args:
        channel: to the server; the caller closes it.
        timeout_s: how long a call may take.
        reach: is awaited before each call, and has started the server when it returns; a call that loses its server is
            made again. None: nobody starts it.
    """

    def __init__(
        self, channel: grpc.aio.Channel, timeout_s: float, reach: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self.query = QueryServiceStub(channel)
        self.ingest = IngestServiceStub(channel)
        self.recall = RecallServiceStub(channel)
        self._server = ServerServiceStub(channel)
        self._timeout_s = timeout_s
        self._reach = reach

    async def call(self, method: Callable[..., Any], request: object, metadata: Metadata) -> Any:  # noqa: ANN401 - a method's own reply
        """Make a call.

        Raises:
            NoMemoryError: it did not succeed.
        """
        if self._reach is None:
            return await self._called(method, request, metadata)
        for pause_s in _PAUSES_S:
            await self._reach()
            try:
                return await self._called(method, request, metadata)
            except NoMemoryError as error:
                if error.code is not grpc.StatusCode.UNAVAILABLE or error.reason:
                    raise
            await asyncio.sleep(pause_s)
        return await self._called(method, request, metadata)

    async def _called(self, method: Callable[..., Any], request: object, metadata: Metadata) -> Any:  # noqa: ANN401 - as `call`
        try:
            return await method(request, metadata=metadata, timeout=self._timeout_s)
        except grpc.RpcError as error:
            raise from_rpc_error(error) from None

    async def bind(self, credential: Credential) -> BoundCaller:
        """Ask the server who this is. A token's own user is the only one that it can be bound to.

        Raises:
            NoMemoryError: the server does not let this caller in, or does not answer.
            UserNotNamedError: nobody says for which user to read.
        """
        info = await self._info(credential.metadata)
        user_id = credential.user_id or info.caller.user_id
        if not user_id:
            raise UserNotNamedError("say for which user to read")
        return BoundCaller(user_id, credential.metadata, frozenset(info.caller.scopes))

    async def allows_anonymous(self) -> bool:
        """Return whether the server asks for no credentials.

        Raises:
            NoMemoryError: it does not answer.
        """
        try:
            await self._info(())
        except NoMemoryError as error:
            if error.code is grpc.StatusCode.UNAUTHENTICATED:
                return False
            raise
        return True

    async def _info(self, metadata: Metadata) -> server_service_pb2.GetServerInfoResponse:
        request = server_service_pb2.GetServerInfoRequest()
        info: server_service_pb2.GetServerInfoResponse = await self.call(self._server.GetServerInfo, request, metadata)
        return info
