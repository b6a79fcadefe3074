"""Compares the vector index with the log: messages have to have their points, sound ones, and no other points exist."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, Protocol, TypeVar

from nomemory.server import wire
from nomemory.server.embedding.vector import UnusableVectorError, Vector, l2_normalise
from nomemory.server.log.feed import ChangeFeed, StoredVersion, Touched
from nomemory.server.log.position import FeedPosition
from nomemory.server.vector.protocol import StoredPoints, VectorIndex

_USERS_MAX = 256
_DECODED_MAX = 200
"""Messages whose texts are cut at once: bounds the memory that they take."""

Cut = Callable[[str], Sequence[str]]
"""Makes the texts to embed of a content."""


class Orphan(NamedTuple):
    """A version that has points, but is gone from the log, and whose removal is not under way."""

    user_id: str
    sequence: int


class Compared(NamedTuple):
    """How many messages can have points, which of them have another number of points than they should, and orphans."""

    messages: int
    wrong: list[Touched]
    orphans: Sequence[Orphan] = ()


@dataclass(frozen=True, slots=True)
class ExpectedPoints:
    """Compares the points of a user with the user's messages. Belongs to the thread of its feed.

    Attributes:
        log: the log's feed.
        is_known: names those of a user's messages that are work, were just done, or can never be taken.
        dimension: how many numbers a caller's own vector must have to be used.
        part_chars: a message whose bytes are no more than this has one part.
        cut: None, where there is no embedder: then only messages with a vector of the caller's own have points.
    """

    log: ChangeFeed
    is_known: Callable[[str, Sequence[str]], Collection[str]]
    dimension: int
    part_chars: int
    cut: Cut | None

    def users(self, after: str) -> list[str]:
        """Return the next users who have messages, in order of their ids."""
        return self.log.users(after, _USERS_MAX)

    def compared(self, users: Sequence[str], stored: Sequence[Mapping[int, int]], until: FeedPosition) -> Compared:
        """Return which messages, up to a position, have another number of points than they should, and orphans.

        Args:
            users: whose.
            stored: the number of points by sequence, for each of these users.
            until: later messages are left out.
        """
        messages, wrong, orphans = 0, list[Touched](), list[Orphan]()
        for user_id, points in zip(users, stored, strict=True):
            last = until.of_user(user_id)
            versions = self.log.versions(user_id, last, own_vectors_only=self.cut is None)
            messages += len(versions)
            orphans += self._orphans(user_id, points.keys() - {version.sequence for version in versions}, last)
            doubtful = [v for v in versions if v.size > self.part_chars or points.get(v.sequence, 0) != 1]
            for at in range(0, len(doubtful), _DECODED_MAX):
                wrong += self._wrong(user_id, points, doubtful[at : at + _DECODED_MAX])
        return Compared(messages, wrong, orphans)

    def _orphans(self, user_id: str, unknown: Collection[int], until: int) -> list[Orphan]:
        """Return which versions are neither in the log nor have a removal that is still to be done."""
        gone = self.log.gone(sorted(unknown)) if unknown else []
        if not gone:
            return []
        known = self.is_known(user_id, [one.removal.message_id for one in gone if one.removal])
        return [
            Orphan(user_id, sequence)
            for sequence, removal in gone
            if removal is None or (removal.sequence <= until and removal.message_id not in known)
        ]

    def _wrong(self, user_id: str, stored: Mapping[int, int], doubtful: Sequence[StoredVersion]) -> list[Touched]:
        ids = [version.message_id for version in doubtful]
        current, own = self.log.by_ids(user_id, ids), self.log.embeddings(user_id, ids)
        known = self.is_known(user_id, ids)
        return [
            Touched(version.sequence, user_id, version.message_id)
            for version in doubtful
            if version.message_id not in known
            and (message := current.get(version.message_id)) is not None
            and message.sequence == version.sequence
            and stored.get(version.sequence, 0) != self._parts(message.wire, own.get(version.message_id))
        ]

    def _parts(self, stored: bytes, own: Vector | None) -> int:
        if usable_vector(own, self.dimension):
            return 1
        return len(self.cut(wire.decode(stored).content)) if self.cut else 0


def usable_vector(own: Vector | None, dimension: int) -> Vector | None:
    """Keep a caller's own vector, at length one, only if it fits; it may be of the time of another model."""
    try:
        return l2_normalise(own, dimension) if own else None
    except UnusableVectorError:
        return None


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


class InStoreThread(Protocol):
    """Runs a job in the thread that the log's feed belongs to."""

    def __call__(self, job: Callable[[], _T], /) -> Awaitable[_T]:
        """Run it, and return what it returns."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Goes through all users. Vectors are looked at in samples, and all of them as soon as one is unsound.

    Attributes:
        index: the index; searches go on in between. Users of whom the log has no messages are looked at, too.
        expected: what the log says.
        in_store_thread: runs what concerns the log.
        until: later messages are left out.
        report: is given the messages that have another number of points than they should, some at a time.
        clear: is given the orphans, some at a time.
    """

    index: VectorIndex
    expected: ExpectedPoints
    in_store_thread: InStoreThread
    until: FeedPosition
    report: Callable[[Sequence[Touched]], Awaitable[None]]
    clear: Callable[[Sequence[Orphan]], Awaitable[None]]

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
        while users := await self.in_store_thread(partial(self.expected.users, after)):
            found = await self._add(found, users, with_vectors=looks % sample_every == 0)
            seen.update(users)
            after, looks = users[-1], looks + 1
        if strangers := sorted(await self.index.users() - seen):
            found = await self._add(found, strangers, with_vectors=False)
        return found

    async def _add(self, found: Findings, users: Sequence[str], *, with_vectors: bool) -> Findings:
        stored, compared = await self._look(users, with_vectors=with_vectors)
        if compared.wrong:
            await self.report(compared.wrong)
        if compared.orphans:
            await self.clear(compared.orphans)
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
        stored = await self.index.read_points(users, with_vectors=with_vectors)
        return stored, await self.in_store_thread(partial(self.expected.compared, users, stored.by_user, self.until))


_VERSIONS_MAX = 1000


async def remove_orphans(index: VectorIndex, orphans: Sequence[Orphan]) -> None:
    """Remove the points of versions that are gone.

    Raises:
        Fault: INDEX_UNAVAILABLE if the engine does not answer.
    """
    for user_id, group in groupby(sorted(orphans), key=attrgetter("user_id")):
        sequences = [orphan.sequence for orphan in group]
        for at in range(0, len(sequences), _VERSIONS_MAX):
            await index.remove_versions(user_id, sequences[at : at + _VERSIONS_MAX])
