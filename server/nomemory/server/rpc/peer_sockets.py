"""The sockets of a process's clients. gRPC has no way to close one, but the system has."""

from __future__ import annotations

import ipaddress
import os
import socket
import stat
from collections.abc import Collection
from urllib.parse import unquote

_Address = tuple[str, int]


def close_connections(peers: Collection[str]) -> int:
    """Shut connections down. Return how many there were.

    Args:
        peers: the other ends, as gRPC names them: `ipv4:127.0.0.1:40000`, `ipv6:%5B::1%5D:40000`.
    """
    wanted = {_address(peer) for peer in peers if peer.startswith("ip")}
    return sum(_shut_down(int(name), wanted) for name in os.listdir("/dev/fd"))  # noqa: PTH208 - numbers, not paths


def _address(peer: str) -> _Address:
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return _plain(host.strip("[]")), int(port)


def _plain(host: str) -> str:
    """Return an address in one spelling; a server for IPv6 gets those of IPv4 wrapped."""
    address = ipaddress.ip_address(host)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _shut_down(descriptor: int, wanted: Collection[_Address]) -> bool:
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return False
        # A copy: what gRPC closes meanwhile cannot become another connection under our hands.
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            if copy.family not in {socket.AF_INET, socket.AF_INET6}:
                return False
            host, port, *_ = copy.getpeername()
            if (_plain(host), port) not in wanted:
                return False
            copy.shutdown(socket.SHUT_RDWR)
            return True
    except OSError:  # it listens, or has just been closed
        return False
