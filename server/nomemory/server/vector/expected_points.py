"""What the log says the vector index should hold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from nomemory.server import wire
from nomemory.server.embedding.l2_normalise import UnusableVectorError, l2_normalise
from nomemory.server.embedding.vector import Vector
from nomemory.server.log.feed import ChangeFeed, StoredVersion, Touched
from nomemory.server.log.position import FeedPosition

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


class ExpectedPoints:
    """Compares the points of a user with the user's messages. Belongs to the thread of its feed.

    Args:
        log: the log's feed.
        is_known: names those of a user's messages that are work, were just done, or can never be taken.
        dimension: how many numbers a caller's own vector must have to be used.
        part_chars: a message whose bytes are no more than this has one part.
        cut: None, where there is no embedder: then only messages with a vector of the caller's own have points.
    """

    def __init__(
        self,
        log: ChangeFeed,
        is_known: Callable[[str, Sequence[str]], Collection[str]],
        dimension: int,
        part_chars: int,
        cut: Cut | None,
    ) -> None:
        self._log = log
        self._is_known = is_known
        self._dimension = dimension
        self._part_chars = part_chars
        self._cut = cut

    def users(self, after: str) -> list[str]:
        """Return the next users who have messages, in order of their ids."""
        return self._log.users(after, _USERS_MAX)

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
            versions = self._log.versions(user_id, last, own_vectors_only=self._cut is None)
            messages += len(versions)
            orphans += self._orphans(user_id, points.keys() - {version.sequence for version in versions}, last)
            doubtful = [v for v in versions if v.size > self._part_chars or points.get(v.sequence, 0) != 1]
            for at in range(0, len(doubtful), _DECODED_MAX):
                wrong += self._wrong(user_id, points, doubtful[at : at + _DECODED_MAX])
        return Compared(messages, wrong, orphans)

    def _orphans(self, user_id: str, unknown: Collection[int], until: int) -> list[Orphan]:
        """Return which versions are neither in the log nor have a removal that is still to be done."""
        gone = self._log.gone(sorted(unknown)) if unknown else []
        if not gone:
            return []
        known = self._is_known(user_id, [one.removal.message_id for one in gone if one.removal])
        return [
            Orphan(user_id, sequence)
            for sequence, removal in gone
            if removal is None or (removal.sequence <= until and removal.message_id not in known)
        ]

    def _wrong(self, user_id: str, stored: Mapping[int, int], doubtful: Sequence[StoredVersion]) -> list[Touched]:
        ids = [version.message_id for version in doubtful]
        current, own = self._log.by_ids(user_id, ids), self._log.embeddings(user_id, ids)
        known = self._is_known(user_id, ids)
        return [
            Touched(version.sequence, user_id, version.message_id)
            for version in doubtful
            if version.message_id not in known
            and (message := current.get(version.message_id)) is not None
            and message.sequence == version.sequence
            and stored.get(version.sequence, 0) != self._parts(message.wire, own.get(version.message_id))
        ]

    def _parts(self, stored: bytes, own: Vector | None) -> int:
        if usable_vector(own, self._dimension):
            return 1
        return len(self._cut(wire.decode(stored).content)) if self._cut else 0


def usable_vector(own: Vector | None, dimension: int) -> Vector | None:
    """Keep a caller's own vector, at length one, only if it fits; it may be of the time of another model."""
    try:
        return l2_normalise(own, dimension) if own else None
    except UnusableVectorError:
        return None
