"""Compare the points in the index with the messages in the message log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from nomemory.server import wire
from nomemory.server.embedding.vector import Vector
from nomemory.server.indexing.vector.desired_points import normalize_caller_vector
from nomemory.server.store.change_feed import ChangeFeed, ChangeRef, StoredVersion
from nomemory.server.store.feed_position import FeedPosition

_MAX_USERS: Final = 256
_MAX_DECODED: Final = 200
"""Number of messages to decode at once, to limit the memory use."""

SplitText = Callable[[str], Sequence[str]]
"""Splits the content of a message into the texts to embed."""


class OrphanedVersion(NamedTuple):
    """A deleted message version that still has points in the index, although its removal is not in the backlog."""

    user_id: str
    sequence: int


class PointDifferences(NamedTuple):
    """The differences between the points in the index and the messages in the message log.

    Attributes:
        messages: number of messages that should have points.
        mismatched: messages whose number of points is not the expected number.
        orphans: deleted versions that still have points.
    """

    messages: int
    mismatched: list[ChangeRef]
    orphans: Sequence[OrphanedVersion] = ()


@dataclass(frozen=True, slots=True)
class ExpectedPoints:
    """Compares stored points with expected points. An instance belongs to the thread of its change feed.

    Attributes:
        find_tracked_ids: returns the subset of a user's message ids that are in the backlog.
        dimension: the dimension of the vectors in the index.
        part_chars: the maximum length of a part in characters; a message of at most this size in bytes has one part.
        split: splits the content of a message into texts; None if there is no embedder, so that only messages with a
            caller's vector have points.
    """

    log: ChangeFeed
    find_tracked_ids: Callable[[str, Sequence[str]], Collection[str]]
    dimension: int
    part_chars: int
    split: SplitText | None

    def list_users(self, after: str) -> list[str]:
        """Return the next users who have messages, ordered by id, after the user `after`."""
        return self.log.list_users(after, _MAX_USERS)

    def compare_users(
        self, users: Sequence[str], stored: Sequence[Mapping[int, int]], until: FeedPosition
    ) -> PointDifferences:
        """Compare the points of users with their messages in the message log, up to the position `until`.

        `stored` contains the number of points by sequence number for each user, in the order of `users`.
        """
        messages, mismatched, orphans = 0, list[ChangeRef](), list[OrphanedVersion]()
        for user_id, points in zip(users, stored, strict=True):
            last = until.get_user_sequence(user_id)
            versions = self.log.list_versions(user_id, last, caller_vectors_only=self.split is None)
            messages += len(versions)
            orphans += self._find_orphans(user_id, points.keys() - {version.sequence for version in versions}, last)
            candidates = [v for v in versions if v.size > self.part_chars or points.get(v.sequence, 0) != 1]
            for start in range(0, len(candidates), _MAX_DECODED):
                mismatched += self._find_mismatched_messages(user_id, points, candidates[start : start + _MAX_DECODED])
        return PointDifferences(messages, mismatched, orphans)

    def _find_orphans(self, user_id: str, unknown: Collection[int], until: int) -> list[OrphanedVersion]:
        deleted = self.log.find_deleted_versions(sorted(unknown)) if unknown else []
        if not deleted:
            return []
        tracked = self.find_tracked_ids(user_id, [version.removal.message_id for version in deleted if version.removal])
        return [
            OrphanedVersion(user_id, sequence)
            for sequence, removal in deleted
            if removal is None or (removal.sequence <= until and removal.message_id not in tracked)
        ]

    def _find_mismatched_messages(
        self, user_id: str, stored: Mapping[int, int], candidates: Sequence[StoredVersion]
    ) -> list[ChangeRef]:
        ids = [version.message_id for version in candidates]
        current, vectors = self.log.read_messages(user_id, ids), self.log.read_embeddings(user_id, ids)
        tracked = self.find_tracked_ids(user_id, ids)
        return [
            ChangeRef(version.sequence, user_id, version.message_id)
            for version in candidates
            if version.message_id not in tracked
            and (message := current.get(version.message_id)) is not None
            and message.sequence == version.sequence
            and stored.get(version.sequence, 0) != self._count_parts(message.wire, vectors.get(version.message_id))
        ]

    def _count_parts(self, stored: bytes, vector: Vector | None) -> int:
        if normalize_caller_vector(vector, self.dimension):
            return 1
        return len(self.split(wire.decode(stored).content)) if self.split else 0
