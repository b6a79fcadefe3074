"""How many connections a process has: how many the system allows, and which make room where there are too many.

gRPC has no way to close one connection. So the sockets of a process are looked at beside it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import resource
import socket
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from nomemory.server.listen_address import http_address
from nomemory.server.overload.places import ProvenConnections
from nomemory.server.settings import Settings
from nomemory.server.settings.serving import ConnectionSettings
from nomemory.server.structured_logs import get_logger

Address = tuple[str, int]
"""Host and port of the other end."""


_INTERNET = frozenset({socket.AF_INET, socket.AF_INET6})


def address_of(peer: str) -> Address:
    """Return the address of a client as gRPC names it: `ipv4:127.0.0.1:40000`, `ipv6:%5B::1%5D:40000`."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return _plain(host.strip("[]")), int(port)


def descriptors() -> list[int]:
    """Return the numbers of all open files."""
    return [int(name) for name in os.listdir("/dev/fd")]  # noqa: PTH208 - numbers, not paths


def clients(port: int) -> set[Address]:
    """Return who is connected to a port of this process."""
    ends = [_ends(descriptor) for descriptor in descriptors()]
    return {there for here, there in filter(None, ends) if here[1] == port}


def listeners(port: int) -> dict[int, int]:
    """Return the sockets with which this process listens at a port: the inode of each, by its descriptor."""
    return {descriptor: inode for descriptor in descriptors() if (inode := _listening_inode(descriptor, port))}


def are_open(sockets: Mapping[int, int]) -> bool:
    """Return whether descriptors are still those sockets."""
    try:
        return all(os.fstat(descriptor).st_ino == inode for descriptor, inode in sockets.items())
    except OSError:
        return False


def close(addresses: Collection[Address]) -> int:
    """Shut connections down. Return how many there were."""
    return sum(_shut_down(descriptor, addresses) for descriptor in descriptors())


def _listening_inode(descriptor: int, port: int) -> int | None:
    try:
        seen = os.fstat(descriptor)
        if not stat.S_ISSOCK(seen.st_mode):
            return None
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            listens = copy.family in _INTERNET and copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            return seen.st_ino if listens and copy.getsockname()[1] == port else None
    except OSError:
        return None


def _ends(descriptor: int) -> tuple[Address, Address] | None:
    """Return both ends of a connection; None where the descriptor is no connection, or is just being closed."""
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return None
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            if copy.family not in _INTERNET:
                return None
            here, there = copy.getsockname(), copy.getpeername()
    except OSError:
        return None
    return (_plain(here[0]), here[1]), (_plain(there[0]), there[1])


def _shut_down(descriptor: int, addresses: Collection[Address]) -> bool:
    ends = _ends(descriptor)
    if ends is None or ends[1] not in addresses:
        return False
    try:
        # A copy that is still the same: what gRPC closes meanwhile cannot become another connection under our hands.
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            if copy.getpeername()[1] == ends[1][1]:
                copy.shutdown(socket.SHUT_RDWR)
    except OSError:
        return False
    return True


def _plain(host: str) -> str:
    """Return an address in one spelling; a server for IPv6 gets those of IPv4 wrapped."""
    address = ipaddress.ip_address(host)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


_log = get_logger("rpc")


async def watch_strangers(port: int, proven: ProvenConnections, connections: ConnectionSettings, most: int) -> None:
    """Keep a quarter of the connections free, until cancelled: those make room that came first of the unproven ones.

    Args:
        port: where the server listens.
        proven: the connections that stay.
        connections: how long the others stay in any case.
        most: how many connections there may be.
    """
    known: dict[Address, None] = {}
    while True:
        await asyncio.sleep(connections.connection_proof_s)
        if len(descriptors()) * 4 < most * 3:
            known = {}
            continue
        here = clients(port)
        strangers = here.difference(map(address_of, proven))
        known = {address: None for address in known if address in strangers}
        leaving = list(known)[: max(0, len(here) - most * 3 // 4)]
        if leaving:
            _log.warning("closed connections that brought no request of anybody who was admitted", count=close(leaving))
        known |= dict.fromkeys(strangers)


_OTHERS = 256
"""Open files beside the connections: the log, the indexes, pipes."""


@dataclass(frozen=True, slots=True)
class Affordable:
    """How many connections there can be, by the way that they come in."""

    grpc: int
    http: int


def affordable(settings: Settings) -> Affordable:
    """Return how many connections the settings ask for. Where the system lets have fewer, both ways get their share."""
    grpc, http = settings.connections.connections_max, settings.http.connections_max if http_address(settings) else 0
    there = affordable_connections(grpc + http)
    for_http = there * http // (grpc + http)
    return Affordable(there - for_http, for_http)


def affordable_connections(wanted: int) -> int:
    """Return how many connections there can be, at most as many as wanted. Raises the limit on open files for them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHERS
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    except (OSError, ValueError):  # macOS has a limit of its own below the hard one
        raised = soft
    return max(raised - _OTHERS, 1)
