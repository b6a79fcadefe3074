"""Compare the points of users with their messages in the log."""

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
"""Messages whose texts are split at once, to bound the memory."""

SplitText = Callable[[str], Sequence[str]]
"""Returns the texts to embed of a content."""


class Orphan(NamedTuple):
    """A version that has points, but is gone from the log, and whose removal is not under way."""

    user_id: str
    sequence: int


class Differences(NamedTuple):
    """The differences between index and log.

    Attributes:
        messages: number of messages that can have points.
        mismatched: messages with another number of points than expected.
        orphans: versions that should have no points.
    """

    messages: int
    mismatched: list[ChangeRef]
    orphans: Sequence[Orphan] = ()


@dataclass(frozen=True, slots=True)
class ExpectedPoints:
    """Computes how many points each message should have. Belongs to the thread of its change feed.

    Attributes:
        log: the change feed.
        known: returns those of a user's messages that are in the backlog or dead letters.
        dimension: length of a usable caller's vector.
        part_chars: a message of no more bytes than this has one part.
        split: None without an embedder: then only messages with a caller's vector have points.
    """

    log: ChangeFeed
    known: Callable[[str, Sequence[str]], Collection[str]]
    dimension: int
    part_chars: int
    split: SplitText | None

    def users(self, after: str) -> list[str]:
        """Return the next users who have messages, in order of their ids."""
        return self.log.users(after, _MAX_USERS)

    def compare(self, users: Sequence[str], stored: Sequence[Mapping[int, int]], until: FeedPosition) -> Differences:
        """Compare what is stored of users with the log.

        Args:
            users: the users.
            stored: the number of points by sequence, for each user.
            until: messages after this position are left out.
        """
        messages, mismatched, orphans = 0, list[ChangeRef](), list[Orphan]()
        for user_id, points in zip(users, stored, strict=True):
            last = until.of_user(user_id)
            versions = self.log.versions(user_id, last, caller_vectors_only=self.split is None)
            messages += len(versions)
            orphans += self._orphans(user_id, points.keys() - {version.sequence for version in versions}, last)
            doubtful = [v for v in versions if v.size > self.part_chars or points.get(v.sequence, 0) != 1]
            for start in range(0, len(doubtful), _MAX_DECODED):
                mismatched += self._mismatched(user_id, points, doubtful[start : start + _MAX_DECODED])
        return Differences(messages, mismatched, orphans)

    def _orphans(self, user_id: str, unknown: Collection[int], until: int) -> list[Orphan]:
        """Return the versions that are not in the log and whose removal is not in the backlog."""
        gone = self.log.deleted_versions(sorted(unknown)) if unknown else []
        if not gone:
            return []
        known = self.known(user_id, [version.removal.message_id for version in gone if version.removal])
        return [
            Orphan(user_id, sequence)
            for sequence, removal in gone
            if removal is None or (removal.sequence <= until and removal.message_id not in known)
        ]

    def _mismatched(
        self, user_id: str, stored: Mapping[int, int], doubtful: Sequence[StoredVersion]
    ) -> list[ChangeRef]:
        ids = [version.message_id for version in doubtful]
        current, vectors = self.log.by_ids(user_id, ids), self.log.embeddings(user_id, ids)
        known = self.known(user_id, ids)
        return [
            ChangeRef(version.sequence, user_id, version.message_id)
            for version in doubtful
            if version.message_id not in known
            and (message := current.get(version.message_id)) is not None
            and message.sequence == version.sequence
            and stored.get(version.sequence, 0) != self._parts(message.wire, vectors.get(version.message_id))
        ]

    def _parts(self, stored: bytes, vector: Vector | None) -> int:
        if usable_caller_vector(vector, self.dimension):
            return 1
        return len(self.split(wire.decode(stored).content)) if self.split else 0
