"""The connection of a recall-only server to the QueryService of another server."""

from __future__ import annotations

from contextlib import AsyncExitStack

import grpc

from nomemory.recall.tools.query_stub import QueryStub
from nomemory.server.api.services.recall_runner import Metadata
from nomemory.server.api.services.remote_query import RemoteQueryStub
from nomemory.server.runtime.listen_address import parse_listen_address
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.recall_planner import RecallSettingsError
from nomemory.v1 import query_service_pb2_grpc


def open_remote_query(settings: Settings, stack: AsyncExitStack) -> tuple[QueryStub, Metadata]:
    """Return a stub of the configured QueryService, and the metadata that authenticates its calls.

    Raises:
        RecallSettingsError: the connection to another machine would not be encrypted.
        ListenAddressError: the configured address is not of the form HOST:PORT.
    """
    channel = _open_channel(settings)
    stack.push_async_callback(channel.close)
    key = settings.recall.upstream_api_key
    metadata = (("authorization", f"Bearer {key.get_secret_value()}"),) if key else ()
    return RemoteQueryStub(query_service_pb2_grpc.QueryServiceStub(channel)), metadata


def _open_channel(settings: Settings) -> grpc.aio.Channel:
    target = settings.recall.upstream
    if settings.recall.upstream_tls:
        ca_file = settings.recall.upstream_tls_ca
        credentials = grpc.ssl_channel_credentials(ca_file.read_bytes() if ca_file else None)
        return grpc.aio.secure_channel(target, credentials)
    if not (parse_listen_address(target).is_loopback() or settings.identity.insecure_plaintext):
        raise RecallSettingsError(
            f"refusing to read messages from {target} without TLS: set NOMEMORY_RECALL_UPSTREAM_TLS=true, or "
            "NOMEMORY_INSECURE_PLAINTEXT=true if the network is encrypted"
        )
    return grpc.aio.insecure_channel(target)
