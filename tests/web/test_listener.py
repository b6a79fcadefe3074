"""What is accepted is sent at once, on any event loop."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing

import uvloop

from nomemory.server.listen_address import ListenAddress
from nomemory.server.settings import Settings
from nomemory.server.web.asgi_server import Listener
from nomemory.server.web.connection import ConnectionLimits


class Noting(asyncio.Protocol):
    """Notes whether its connection waits for acknowledgements before it sends more."""

    def __init__(self, noted: asyncio.Future[int]) -> None:
        self._noted = noted

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        accepted = transport.get_extra_info("socket")
        self._noted.set_result(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))


async def _sends_at_once() -> bool:
    noted = asyncio.get_running_loop().create_future()
    listener = Listener(lambda: Noting(noted), None, ConnectionLimits(Settings.from_environment(), 1))
    bound = await listener.start(ListenAddress("127.0.0.1", 0))
    with closing(listener), closing(socket.create_connection(("127.0.0.1", bound.port))):
        return bool(await asyncio.wait_for(noted, 20))


def test_an_answer_in_two_pieces_does_not_wait_for_an_acknowledgement() -> None:
    assert uvloop.run(_sends_at_once())
    assert asyncio.run(_sends_at_once())
