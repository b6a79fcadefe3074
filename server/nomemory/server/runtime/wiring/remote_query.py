"""Connects to the QueryService of another server, for a server that only recalls."""

from __future__ import annotations

from contextlib import AsyncExitStack

import grpc

from nomemory.recall.tools.query_stub import QueryStub
from nomemory.server.api.services.recall_agent import Metadata
from nomemory.server.api.services.remote_query import RemoteQuery
from nomemory.server.runtime.listen_address import parse_listen_address
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.recall_planner import RecallSettingsError
from nomemory.v1 import query_service_pb2_grpc


def remote_query(settings: Settings, stack: AsyncExitStack) -> tuple[QueryStub, Metadata]:
    """Connect to the QueryService that the settings name, with this process's own key.

    Raises:
        RecallSettingsError: it is on another machine, and the connection would be in the clear.
        ListenAddressError: the target is not of the form HOST:PORT.
    """
    channel = _channel(settings)
    stack.push_async_callback(channel.close)
    key = settings.recall.upstream_api_key
    metadata = (("authorization", f"Bearer {key.get_secret_value()}"),) if key else ()
    return RemoteQuery(query_service_pb2_grpc.QueryServiceStub(channel)), metadata


def _channel(settings: Settings) -> grpc.aio.Channel:
    target = settings.recall.upstream
    if settings.recall.upstream_tls:
        trusted = settings.recall.upstream_tls_ca
        credentials = grpc.ssl_channel_credentials(trusted.read_bytes() if trusted else None)
        return grpc.aio.secure_channel(target, credentials)
    if not (parse_listen_address(target).is_loopback() or settings.identity.insecure_plaintext):
        raise RecallSettingsError(
            f"refusing to read messages from {target} in the clear: set NOMEMORY_RECALL_UPSTREAM_TLS=true, or "
            "NOMEMORY_INSECURE_PLAINTEXT=true where the network itself is encrypted"
        )
    return grpc.aio.insecure_channel(target)
