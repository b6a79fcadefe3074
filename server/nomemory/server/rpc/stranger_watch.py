"""Closes connections that never bring a whole request, where they leave little room for others."""

from __future__ import annotations

import asyncio

from nomemory.server.rpc.peer_sockets import Address, address_of, clients, close, descriptors
from nomemory.server.rpc.proven_connections import ProvenConnections
from nomemory.server.settings.connections import ConnectionSettings
from nomemory.server.structured_logs import get_logger

_log = get_logger("rpc")


async def watch_strangers(port: int, proven: ProvenConnections, connections: ConnectionSettings, most: int) -> None:
    """Look now and then, until cancelled.

    Args:
        port: where the server listens.
        proven: the connections that stay.
        connections: how long the others may stay.
        most: how many connections there may be.
    """
    known: frozenset[Address] = frozenset()
    while True:
        await asyncio.sleep(connections.connection_proof_s)
        if len(descriptors()) * 2 < most:
            known = frozenset()
            continue
        strangers = clients(port).difference(map(address_of, proven))
        if overdue := strangers & known:
            _log.warning("closed connections that brought no whole request", count=close(overdue))
        known = frozenset(strangers)
