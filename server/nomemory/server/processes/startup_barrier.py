"""Where the processes of a server wait for each other."""

from __future__ import annotations

import asyncio

from nomemory.server.processes.writer_calls import Orders
from nomemory.server.processes.writer_services import WriterSide


class Rendezvous:
    """Readers learn here what to do, as soon as the writer has everything that they open.

    Args:
        count: how many readers there are, numbered from 1.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._given: asyncio.Future[tuple[Orders, WriterSide]] = asyncio.get_running_loop().create_future()
        self._serving: set[int] = set()
        self._all_serving = asyncio.Event()

    def give(self, orders: Orders, side: WriterSide) -> None:
        """Tell the readers what to do, and who answers them."""
        self._given.set_result((orders, side))

    async def orders(self) -> Orders:
        """Return the orders, once there are some."""
        return (await asyncio.shield(self._given))[0]

    async def side(self) -> WriterSide:
        """Return the parts that answer readers."""
        return (await asyncio.shield(self._given))[1]

    def note_serving(self, number: int) -> None:
        """Note that a reader serves."""
        self._serving.add(number)
        if len(self._serving) == self._count:
            self._all_serving.set()

    async def all_serve(self, longest_s: float) -> bool:
        """Wait until all readers have begun to serve; False if some were not in time."""
        try:
            async with asyncio.timeout(longest_s):
                return await self._all_serving.wait()
        except TimeoutError:
            return False
