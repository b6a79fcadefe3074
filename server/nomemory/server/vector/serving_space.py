"""The vector space that answers reads. Another one may take its place, but not in the middle of a read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from nomemory.server.faults import Fault, Reason
from nomemory.server.vector.space import VectorSpace

_RETRY_AFTER_S = 0.1


@dataclass(slots=True)
class _Served:
    """A space, how many reads use it, and whether the last of them has ended."""

    space: VectorSpace
    reads: int = 0
    unused: asyncio.Event = field(default_factory=asyncio.Event)


class ServingSpace:
    """Gives each read the space of its beginning, for as long as it lasts.

    Args:
        space: the first one.
    """

    def __init__(self, space: VectorSpace) -> None:
        self._now = _Served(space)
        self._former: _Served | None = None

    @property
    def now(self) -> VectorSpace:
        """The space of reads that begin now."""
        return self._now.space

    @contextmanager
    def used(self) -> Iterator[VectorSpace]:
        """Use one space for a whole read."""
        served = self._now
        served.reads += 1
        try:
            yield served.space
        finally:
            served.reads -= 1
            if not served.reads and served is not self._now:
                served.unused.set()

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
        self._now = _Served(space)
        if former.reads:
            with suppress(TimeoutError):
                async with asyncio.timeout(longest_s):
                    await former.unused.wait()
        return former.space

    def forget_former(self) -> None:
        """Let go of the space that was replaced."""
        self._former = None
