"""The barrier at which the processes of a server wait for each other."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from nomemory.server.readers.calls import Assignment, SpaceDescription
from nomemory.server.readers.writer_services import WriterServices


class StartupBarrier:
    """Holds readers back until the writer has everything that they open, and the writer until all readers serve.

    Args:
        count: how many readers there are, numbered from 1.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._opened: asyncio.Future[tuple[Assignment, WriterServices]] = asyncio.get_running_loop().create_future()
        self._serving: set[int] = set()
        self._all_serving = asyncio.Event()

    def open(self, assignment: Assignment, services: WriterServices) -> None:
        """Let the readers go on: give them their assignment, and the services that answer them."""
        self._opened.set_result((assignment, services))

    def reassign(self, space: SpaceDescription) -> None:
        """Let readers that come later serve from another vector space."""
        if self._opened.done():
            assignment, services = self._opened.result()
            self._opened = asyncio.get_running_loop().create_future()
            self._opened.set_result((replace(assignment, space=space), services))

    async def assignment(self) -> Assignment:
        """Return what readers serve, once the barrier is open."""
        return (await asyncio.shield(self._opened))[0]

    async def services(self) -> WriterServices:
        """Return the services that answer readers, once the barrier is open."""
        return (await asyncio.shield(self._opened))[1]

    def note_serving(self, number: int) -> None:
        """Note that a reader serves."""
        self._serving.add(number)
        if len(self._serving) == self._count:
            self._all_serving.set()

    async def all_serve(self, longest_s: float) -> bool:
        """Wait until all readers have begun to serve; return False if some were not in time."""
        try:
            async with asyncio.timeout(longest_s):
                return await self._all_serving.wait()
        except TimeoutError:
            return False
