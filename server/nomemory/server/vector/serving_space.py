"""The vector space that answers reads. Another one may take its place, but not in the middle of a read."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from nomemory.server.faults import Fault, Reason
from nomemory.server.vector.space import VectorSpace

_RETRY_AFTER_S = 0.1


class Served:
    """A space that reads use: as a context it is the space, for one read."""

    __slots__ = ("_unused", "reads", "space")

    def __init__(self, space: VectorSpace) -> None:
        self.space = space
        self.reads = 0
        self._unused: asyncio.Event | None = None

    def __enter__(self) -> VectorSpace:
        """Begin a read."""
        self.reads += 1
        return self.space

    def __exit__(self, *_error: object) -> None:
        """End it."""
        self.reads -= 1
        if self._unused is not None and not self.reads:
            self._unused.set()

    async def unused(self) -> None:
        """Wait until the last read has ended. None may begin meanwhile."""
        self._unused = asyncio.Event()
        if self.reads:
            await self._unused.wait()


class ServingSpace:
    """Gives each read the space of its beginning, for as long as it lasts.

    Args:
        space: the first one.
    """

    def __init__(self, space: VectorSpace) -> None:
        self._now = Served(space)
        self._former: Served | None = None

    @property
    def now(self) -> VectorSpace:
        """The space of reads that begin now."""
        return self._now.space

    def used(self) -> Served:
        """Use one space for a whole read."""
        return self._now

    def named(self, name: str) -> VectorSpace:
        """Return the space of that name, for a read that has begun in another process.

        Raises:
            Fault: INDEX_UNAVAILABLE, it is gone.
        """
        for served in (self._now, self._former):
            if served is not None and served.space.name == name:
                return served.space
        message = "the vector index has been replaced by that of another model"
        raise Fault(Reason.ERROR_REASON_INDEX_UNAVAILABLE, message, retry_after_s=_RETRY_AFTER_S)

    async def replace(self, space: VectorSpace, longest_s: float) -> VectorSpace:
        """Let further reads use another space; return the former one when no read uses it, or after so many seconds.

        Until `forget_former` it can be had by its name.
        """
        former = self._former = self._now
        self._now = Served(space)
        with suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                await former.unused()
        return former.space

    def forget_former(self) -> None:
        """Let go of the space that was replaced."""
        self._former = None
