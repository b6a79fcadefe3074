"""The vector space that reads use. It can be replaced while reads go on."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from nomemory.server.search.semantic.vector_space import VectorSpace


class SpaceLease:
    """Reference-counted lease on a vector space. Entering it returns the space, for one read."""

    __slots__ = ("_unused", "reads", "space")

    def __init__(self, space: VectorSpace) -> None:
        self.space = space
        self.reads = 0
        self._unused: asyncio.Event | None = None

    def __enter__(self) -> VectorSpace:
        """Start a read."""
        self.reads += 1
        return self.space

    def __exit__(self, *_error: object) -> None:
        """End a read."""
        self.reads -= 1
        if self._unused is not None and not self.reads:
            self._unused.set()

    async def unused(self) -> None:
        """Wait until the last read has ended. No read may start meanwhile."""
        self._unused = asyncio.Event()
        if self.reads:
            await self._unused.wait()


class ActiveSpace:
    """The space that reads use. A read keeps the space with which it started until it ends.

    Args:
        space: the first space.
    """

    def __init__(self, space: VectorSpace) -> None:
        self._now = SpaceLease(space)

    @property
    def now(self) -> VectorSpace:
        """The space of reads that start now."""
        return self._now.space

    def used(self) -> SpaceLease:
        """Return a lease for one read."""
        return self._now

    async def replace(self, space: VectorSpace, timeout_s: float) -> VectorSpace:
        """Let further reads use another space; return the former one when no read uses it, or after so many seconds."""
        former = self._now
        self._now = SpaceLease(space)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await former.unused()
        return former.space
