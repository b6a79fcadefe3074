"""A port that the processes of one server share, and nobody else."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from nomemory.server.listen_address import ListenAddress, ListenAddressError

_NEEDS_LISTENING = sys.platform == "linux"
"""Where SO_REUSEADDR lets two sockets be bound to one port, as long as neither listens."""


@contextmanager
def reserved(address: ListenAddress) -> Iterator[ListenAddress]:
    """Hold a port, so that sockets with SO_REUSEPORT can share it; returns the address with the port that was found.

    SO_REUSEPORT alone would let a second server join the first one and take a part of its connections. So the port
    is first taken as if it were for this process alone, which fails if anybody has it, and is opened to SO_REUSEPORT
    afterwards. The socket is kept, without accepting anything: whoever comes later fails at the first step.

    Raises:
        ListenAddressError: somebody has the port, or the host is not of this machine.
    """
    with ExitStack() as stack:
        try:
            port = _hold_all(address, stack)
        except OSError:
            raise ListenAddressError(f"cannot listen on {address}: is the port taken?") from None
        yield ListenAddress(address.host, port)


def _hold_all(address: ListenAddress, stack: ExitStack) -> int:
    """Hold the port on every address that the host's name stands for."""
    port = address.port
    places = socket.getaddrinfo(address.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, _, _, _, place in places:
        held = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        _hold(held, (place[0], port, *place[2:]))
        port = held.getsockname()[1]
    return port


def _hold(held: socket.socket, place: tuple[object, ...]) -> None:
    is_named = bool(place[1])
    # Connections of an earlier server that are still fading away must not matter.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, is_named)
    held.bind(place)
    if is_named and _NEEDS_LISTENING:
        held.listen(1)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if is_named and _NEEDS_LISTENING:
        with suppress(OSError):
            held.shutdown(socket.SHUT_RDWR)
