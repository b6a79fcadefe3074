"""Compares the vector index with the log: messages have to have their points, sound ones, and no other points exist."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

from nomemory.server.log.feed import Touched
from nomemory.server.log.position import FeedPosition
from nomemory.server.vector.expected_points import Compared, ExpectedPoints, Orphan
from nomemory.server.vector.protocol import StoredPoints

_T = TypeVar("_T")
_SAMPLE_EVERY = 8
"""Of this many looks at the index, one looks at the vectors, too."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What a comparison found.

    Attributes:
        messages: how many messages can have points.
        points: how many points they have.
        mismatched: how many messages have another number of points than they should.
        unsound: how many points cannot be used. Their messages are among those mismatched.
        orphans: how many versions have points that are gone from the log.
    """

    messages: int = 0
    points: int = 0
    mismatched: int = 0
    unsound: int = 0
    orphans: int = 0

    def plus(self, compared: Compared, stored: StoredPoints) -> Findings:
        """Return the sum with what was found of further users."""
        return Findings(
            self.messages + compared.messages,
            self.points + sum(points.total() for points in stored.by_user),
            self.mismatched + len(compared.wrong),
            self.unsound + stored.unsound,
            self.orphans + len(compared.orphans),
        )

    @property
    def is_whole(self) -> bool:
        """Return whether the index holds what the log says."""
        return not self.mismatched and not self.orphans


class AtDesk(Protocol):
    """Runs a job in the thread that the log's feed belongs to."""

    def __call__(self, job: Callable[[], _T], /) -> Awaitable[_T]:
        """Run it, and return what it returns."""


class ReadPoints(Protocol):
    """Reads what an index holds."""

    async def __call__(self, user_ids: Sequence[str], *, with_vectors: bool) -> StoredPoints:
        """Return the sound points of users."""


def _everybody(_user_id: str) -> bool:
    return True


class Comparison:
    """Goes through all users. Vectors are looked at in samples, and all of them as soon as one is unsound.

    Args:
        read: reads the index; searches go on in between.
        expected: what the log says.
        at_desk: runs what concerns the log.
        until: later messages are left out.
        report: is given the messages that have another number of points than they should, some at a time.
        users: names the users of whom the index has points; those of whom the log has no messages are looked at, too.
        clear: is given the orphans, some at a time.
        is_ours: tells whose points are looked at.
    """

    def __init__(
        self,
        read: ReadPoints,
        expected: ExpectedPoints,
        at_desk: AtDesk,
        until: FeedPosition,
        report: Callable[[Sequence[Touched]], Awaitable[None]],
        users: Callable[[], Awaitable[Collection[str]]],
        clear: Callable[[Sequence[Orphan]], Awaitable[None]],
        is_ours: Callable[[str], bool] = _everybody,
    ) -> None:
        self._is_ours = is_ours
        self._users = users
        self._clear = clear
        self._read = read
        self._expected = expected
        self._at_desk = at_desk
        self._until = until
        self._report = report

    async def run(self) -> Findings:
        """Compare the index with the log; return what was found.

        Raises:
            Fault: INDEX_UNAVAILABLE if the engine does not answer.
        """
        found = await self._pass(_SAMPLE_EVERY)
        if not found.unsound:
            return found
        again = await self._pass(1)  # what the first pass reported may be work by now, and is not counted again
        more = {"mismatched": max(found.mismatched, again.mismatched), "orphans": max(found.orphans, again.orphans)}
        return replace(again, **more)

    async def _pass(self, sample_every: int) -> Findings:
        found, looks, after, seen = Findings(), 0, "", set[str]()
        while users := await self._at_desk(partial(self._expected.users, after)):
            found = await self._add(found, users, with_vectors=looks % sample_every == 0)
            seen.update(users)
            after, looks = users[-1], looks + 1
        if strangers := sorted(set(await self._users()) - seen):
            found = await self._add(found, strangers, with_vectors=False)
        return found

    async def _add(self, found: Findings, everybody: Sequence[str], *, with_vectors: bool) -> Findings:
        users = [user_id for user_id in everybody if self._is_ours(user_id)]
        stored, compared = await self._look(users, with_vectors=with_vectors)
        if compared.wrong:
            await self._report(compared.wrong)
        if compared.orphans:
            await self._clear(compared.orphans)
        return found.plus(compared, stored)

    async def _look(self, users: Sequence[str], *, with_vectors: bool) -> tuple[StoredPoints, Compared]:
        """Compare users. What is wrong is looked at once more: work may have come into the index meanwhile."""
        stored, compared = await self._once(users, with_vectors=with_vectors)
        if not compared.wrong and not compared.orphans:
            return stored, compared
        stored, again = await self._once(users, with_vectors=with_vectors)
        before = {*compared.wrong, *compared.orphans}
        wrong = [one for one in again.wrong if one in before]
        return stored, again._replace(wrong=wrong, orphans=[one for one in again.orphans if one in before])

    async def _once(self, users: Sequence[str], *, with_vectors: bool) -> tuple[StoredPoints, Compared]:
        stored = await self._read(users, with_vectors=with_vectors)
        return stored, await self._at_desk(partial(self._expected.compared, users, stored.by_user, self._until))
