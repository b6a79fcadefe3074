"""Serves the services of one process: over gRPC, and over HTTP where the settings say so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from nomemory.server.identity.access import Access
from nomemory.server.listen_address import Addresses
from nomemory.server.rpc.call import Service
from nomemory.server.rpc.call_path import CallPath
from nomemory.server.rpc.grpc_server import GrpcServer
from nomemory.server.rpc.host_interceptors import HostInterceptors
from nomemory.server.settings import Settings
from nomemory.server.web.server import HttpServer


@asynccontextmanager
async def serving(
    services: Sequence[Service],
    addresses: Addresses,
    settings: Settings,
    access: Access,
    *,
    is_shared: bool = False,
    host: HostInterceptors = HostInterceptors(),  # noqa: B008 - frozen
) -> AsyncIterator[Addresses]:
    """Serve until the context is left, then let calls in flight finish. Return the addresses that were bound.

    Args:
        services: what is served, beside health and reflection.
        addresses: where; port 0 picks a free one.
        settings: limits, deadlines, TLS.
        access: decides who may call what.
        is_shared: other processes serve at the same addresses. Somebody has to hold them for all of them.
        host: interceptors to run before and after NoMemory's own.

    Raises:
        ListenAddressError: a port is taken.
        IdentitySettingsError: the files for TLS cannot be used.
    """
    path = CallPath(services, settings, access, host)
    servers: list[GrpcServer | HttpServer] = []
    try:
        servers.append(GrpcServer(path, settings, is_shared=is_shared))
        grpc = await servers[-1].start(addresses.grpc)
        http = None
        if addresses.http is not None:
            servers.append(HttpServer(path, settings, is_shared=is_shared))
            http = await servers[-1].start(addresses.http)
        await path.open()
        yield Addresses(grpc, http)
    finally:
        await path.close()
        await asyncio.gather(*(server.stop(settings.timing.drain_s) for server in servers))
