"""gRPC connection from the MCP server to the NoMemory server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc

from nomemory.client.errors import NoMemoryError, convert_rpc_error
from nomemory.mcp.credentials import BoundCaller, Credential, Metadata, UserNotNamedError, select_tool_scopes
from nomemory.v1 import server_service_pb2
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from nomemory.v1.recall_service_pb2_grpc import RecallServiceStub
from nomemory.v1.server_service_pb2_grpc import ServerServiceStub

_PAUSES_S: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Delays between retries when the server is unavailable."""


class Backend:
    """Calls a NoMemory server. Each call uses the credentials of its MCP connection.

    Args:
        channel: the channel, which the caller closes.
        timeout_s: the timeout of a call, in seconds.
        reach: a coroutine function that starts the server if necessary; it is awaited before each call. If `reach` is
            not None, calls that fail with UNAVAILABLE are retried.
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
            NoMemoryError: the call failed.
        """
        if self._reach is None:
            return await self._call_once(method, request, metadata)
        for pause_s in _PAUSES_S:
            await self._reach()
            try:
                return await self._call_once(method, request, metadata)
            except NoMemoryError as error:
                if error.code is not grpc.StatusCode.UNAVAILABLE or error.reason:
                    raise
            await asyncio.sleep(pause_s)
        return await self._call_once(method, request, metadata)

    async def _call_once(self, method: Callable[..., Any], request: object, metadata: Metadata) -> Any:  # noqa: ANN401 - as `call`
        try:
            return await method(request, metadata=metadata, timeout=self._timeout_s)
        except grpc.RpcError as error:
            raise convert_rpc_error(error) from None

    async def bind_caller(self, credential: Credential) -> BoundCaller:
        """Authenticate a credential and bind it to a user.

        Raises:
            NoMemoryError: the server rejects the credential or is unavailable.
            UserNotNamedError: neither the credential nor the connection determines the user.
        """
        info = await self._read_server_info(credential.metadata)
        user_id = credential.user_id or info.caller.user_id
        if not user_id:
            raise UserNotNamedError(
                "no user id: the credentials are not bound to a user; pass --user or send the header x-user-id"
            )
        scopes = select_tool_scopes(frozenset(info.caller.scopes), user_token=bool(info.caller.user_id))
        return BoundCaller(user_id, credential.metadata, scopes)

    async def allows_anonymous_calls(self) -> bool:
        """Return whether the server accepts calls without credentials.

        Raises:
            NoMemoryError: the server is unavailable.
        """
        try:
            await self._read_server_info(())
        except NoMemoryError as error:
            if error.code is grpc.StatusCode.UNAUTHENTICATED:
                return False
            raise
        return True

    async def _read_server_info(self, metadata: Metadata) -> server_service_pb2.GetServerInfoResponse:
        request = server_service_pb2.GetServerInfoRequest()
        info: server_service_pb2.GetServerInfoResponse = await self.call(self._server.GetServerInfo, request, metadata)
        return info
