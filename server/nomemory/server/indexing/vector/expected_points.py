"""Compare the points in the index with the messages in the log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from nomemory.server import wire
from nomemory.server.embedding.vector import Vector
from nomemory.server.indexing.vector.desired_points import usable_caller_vector
from nomemory.server.store.change_feed import ChangeFeed, ChangeRef, StoredVersion
from nomemory.server.store.feed_position import FeedPosition

_MAX_USERS: Final = 256
_MAX_DECODED: Final = 200
"""Number of messages to decode at once, to limit the memory use."""

SplitText = Callable[[str], Sequence[str]]
"""Splits the content of a message into the texts to embed."""


class Orphan(NamedTuple):
    """A version that has points but was removed from the log, and whose removal is not in the backlog."""

    user_id: str
    sequence: int


class Differences(NamedTuple):
    """The differences between the index and the log.

    Attributes:
        messages: number of messages that should have points.
        mismatched: messages with another number of points than expected.
        orphans: versions that should have no points.
    """

    messages: int
    mismatched: list[ChangeRef]
    orphans: Sequence[Orphan] = ()


@dataclass(frozen=True, slots=True)
class ExpectedPoints:
    """Computes how many points each message should have. An instance belongs to the thread of its change feed.

    Attributes:
        log: the change feed.
        tracked_ids: returns the given messages of a user that are in the backlog.
        dimension: the dimension of the vectors in the index.
        part_chars: messages up to this size in bytes have one part.
        split: splits the content of a message into texts. It is None without an embedder; only messages with a caller's
            vector then have points.
    """

    log: ChangeFeed
    tracked_ids: Callable[[str, Sequence[str]], Collection[str]]
    dimension: int
    part_chars: int
    split: SplitText | None

    def users(self, after: str) -> list[str]:
        """Return the next users who have messages, ordered by id."""
        return self.log.users(after, _MAX_USERS)

    def compare(self, users: Sequence[str], stored: Sequence[Mapping[int, int]], until: FeedPosition) -> Differences:
        """Compare the points of users with the log.

        Args:
            users: the users.
            stored: for each user, the number of points by sequence.
            until: messages after this position are left out.
        """
        messages, mismatched, orphans = 0, list[ChangeRef](), list[Orphan]()
        for user_id, points in zip(users, stored, strict=True):
            last = until.sequence_of_user(user_id)
            versions = self.log.versions(user_id, last, caller_vectors_only=self.split is None)
            messages += len(versions)
            orphans += self._find_orphans(user_id, points.keys() - {version.sequence for version in versions}, last)
            candidates = [v for v in versions if v.size > self.part_chars or points.get(v.sequence, 0) != 1]
            for start in range(0, len(candidates), _MAX_DECODED):
                mismatched += self._find_mismatched(user_id, points, candidates[start : start + _MAX_DECODED])
        return Differences(messages, mismatched, orphans)

    def _find_orphans(self, user_id: str, unknown: Collection[int], until: int) -> list[Orphan]:
        """Return the versions that are not in the log and whose removal is not in the backlog."""
        deleted = self.log.deleted_versions(sorted(unknown)) if unknown else []
        if not deleted:
            return []
        tracked = self.tracked_ids(user_id, [version.removal.message_id for version in deleted if version.removal])
        return [
            Orphan(user_id, sequence)
            for sequence, removal in deleted
            if removal is None or (removal.sequence <= until and removal.message_id not in tracked)
        ]

    def _find_mismatched(
        self, user_id: str, stored: Mapping[int, int], candidates: Sequence[StoredVersion]
    ) -> list[ChangeRef]:
        ids = [version.message_id for version in candidates]
        current, vectors = self.log.by_ids(user_id, ids), self.log.embeddings(user_id, ids)
        tracked = self.tracked_ids(user_id, ids)
        return [
            ChangeRef(version.sequence, user_id, version.message_id)
            for version in candidates
            if version.message_id not in tracked
            and (message := current.get(version.message_id)) is not None
            and message.sequence == version.sequence
            and stored.get(version.sequence, 0) != self._count_parts(message.wire, vectors.get(version.message_id))
        ]

    def _count_parts(self, stored: bytes, vector: Vector | None) -> int:
        if usable_caller_vector(vector, self.dimension):
            return 1
        return len(self.split(wire.decode(stored).content)) if self.split else 0
