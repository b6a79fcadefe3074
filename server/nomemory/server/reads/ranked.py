"""Messages with scores, out of the hits of an index."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

from nomemory.server.message import LoggedMessage

_MARGIN = 8
"""Extra hits that are fetched for those that the log no longer has, so that a second search is rare."""

_GROWTH = 4

_Hit = TypeVar("_Hit")


class Ranked(NamedTuple):
    """A message and its score."""

    message: LoggedMessage
    score: float

    def order(self) -> tuple[float, int, str]:
        """Return the sort key of the listing, for descending order."""
        return (self.score, self.message.ts_us, self.message.message_id)


async def best(
    wanted: int,
    fetch: Callable[[int], Awaitable[Sequence[_Hit]]],
    resolve: Callable[[Sequence[_Hit]], Awaitable[list[Ranked]]],
) -> list[Ranked]:
    """Return the wanted number of messages, or all if there are fewer, best first.

    Args:
        wanted: how many.
        fetch: gives the best hits, at least as many as it is asked for; fewer only if there are no more.
        resolve: gives the messages of those hits that still have one.
    """
    limit = wanted + _MARGIN
    while True:
        hits = await fetch(limit)
        ranked = sorted(await resolve(hits), key=Ranked.order, reverse=True)
        if len(ranked) >= wanted or len(hits) < limit:
            return ranked[:wanted]
        limit *= _GROWTH
