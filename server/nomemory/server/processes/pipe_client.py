"""The asking end of a pipe: any number of calls at a time, on the event loop."""

from __future__ import annotations

import asyncio
import socket
from itertools import count
from typing import Self, cast

from nomemory.server.processes.pipe import GREETING, Answer, Frames, Withdrawn, pack


class PipeClosedError(Exception):
    """The other end is gone; whether it still did what it was asked to is unknown."""


class PipeClient(asyncio.Protocol):
    """Asks the process at the other end. `connected` makes one.

    It takes answers off the transport itself: a stream would wake the loop twice for each.

    Args:
        withdraws: whether to say so when nobody waits for an answer any more.

    Attributes:
        heard_at: when it last answered, in the event loop's time.
    """

    def __init__(self, *, withdraws: bool = False) -> None:
        self._withdraws = withdraws
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._arrived = Frames()
        self._ids = count(GREETING + 1)
        # It may arrive before anybody asks for it.
        self._greeting: asyncio.Future[Answer | None] = self._loop.create_future()
        self._waiting = {GREETING: self._greeting}
        self._is_open = True
        self._lost = asyncio.Event()
        self.heard_at = self._loop.time()

    @classmethod
    async def connected(cls, end: socket.socket, *, withdraws: bool = False) -> Self:
        """Take over one end of a pair of sockets."""
        loop = asyncio.get_running_loop()
        _, client = await loop.create_unix_connection(lambda: cls(withdraws=withdraws), sock=end)
        return client

    @property
    def is_open(self) -> bool:
        """Return whether the other end may still answer."""
        return self._is_open

    async def greeted(self) -> Answer:
        """Wait for what the other end says of itself, unasked.

        Raises:
            PipeClosedError: it is gone.
        """
        return _answer(await self._greeting)

    async def ask(self, request: object) -> Answer:
        """Send a request and wait for its answer.

        Raises:
            PipeClosedError: the other end is gone.
        """
        if not self._is_open:
            raise PipeClosedError
        call_id = next(self._ids)
        arriving = self._waiting[call_id] = self._loop.create_future()
        self._transport.write(pack(call_id, request))
        try:
            return _answer(await arriving)
        except asyncio.CancelledError:
            if self._withdraws and self._is_open:
                self._transport.write(pack(call_id, Withdrawn()))
            raise
        finally:
            del self._waiting[call_id]

    def tell(self, request: object) -> None:
        """Send what needs no answer."""
        if self._is_open:
            self._transport.write(pack(next(self._ids), request))

    def give_up(self) -> None:
        """Ask nothing more; the calls under way are answered if the other end still does."""
        self._is_open = False

    def close(self) -> None:
        """Close this end."""
        self._is_open = False
        self._transport.close()

    async def wait_closed(self) -> None:
        """Wait until the other end is gone."""
        await self._lost.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hear from the event loop what to write to."""
        self._transport = cast("asyncio.Transport", transport)  # it writes, too; event loops have classes of their own

    def data_received(self, data: bytes) -> None:
        """Hear from the event loop what has arrived."""
        self.heard_at = self._loop.time()
        self._arrived.feed(data)
        for call_id, answer in self._arrived.take():
            self._settle(call_id, answer)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why does not matter
        """Hear from the event loop that the other end is gone."""
        self._is_open = False
        for call_id in self._waiting:
            self._settle(call_id, None)
        self._lost.set()

    def _settle(self, call_id: int, answer: Answer | None) -> None:
        arriving = self._waiting.get(call_id)
        if arriving is not None and not arriving.done():
            arriving.set_result(answer)


def _answer(arrived: Answer | None) -> Answer:
    if arrived is None:
        raise PipeClosedError
    return arrived
