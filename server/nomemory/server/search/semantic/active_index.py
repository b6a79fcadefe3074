"""The active vector space, which can be replaced while reads are in progress."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from nomemory.server.search.semantic.vector_space import VectorSpace


class SpaceLease:
    """Reference-counted lease on a vector space. The context manager returns the vector space for one read."""

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

    async def wait_until_unused(self) -> None:
        """Wait until the last read of the vector space has ended. The caller must prevent new reads."""
        self._unused = asyncio.Event()
        if self.reads:
            await self._unused.wait()


class ActiveSpace:
    """The vector space for new reads. A read in progress keeps the vector space with which it started."""

    def __init__(self, space: VectorSpace) -> None:
        self._lease = SpaceLease(space)

    @property
    def current_space(self) -> VectorSpace:
        """The vector space for new reads."""
        return self._lease.space

    def acquire_lease(self) -> SpaceLease:
        """Return a lease on the current vector space, for one read."""
        return self._lease

    async def replace(self, space: VectorSpace, timeout_s: float) -> VectorSpace:
        """Replace the vector space for new reads, wait for reads of the previous space, and return that space."""
        previous = self._lease
        self._lease = SpaceLease(space)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await previous.wait_until_unused()
        return previous.space
