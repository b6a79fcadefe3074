"""The feed that indexes follow: what was stored and removed, in the order of its sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from nomemory.server.message import LoggedMessage
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.position import LogPosition


class ChangeRef(NamedTuple):
    """A message that was stored or removed at a sequence."""

    sequence: int
    user_id: str
    message_id: str


class ChangeBatch(NamedTuple):
    """What was touched from one position of the feed to another, `until`, in any order."""

    entries: list[ChangeRef]
    until: FeedPosition


class DeletedVersion(NamedTuple):
    """A version that the log does not have. `removal` is what removed it, until that is forgotten."""

    sequence: int
    removal: ChangeRef | None


class Change(NamedTuple):
    """One entry of the feed. One of `stored` and `removed_sequence` is set, or neither: the stored version is damaged.

    `stored` is a version that is current at the time of reading. `removed_sequence` is the sequence of a version
    that is gone, because it was deleted or replaced. Versions that came and went meanwhile are not in the feed.
    """

    sequence: int
    user_id: str
    message_id: str
    stored: LoggedMessage | None = None
    removed_sequence: int | None = None


class StoredVersion(NamedTuple):
    """A version of a message, without its content. `size` is the length of its bytes."""

    message_id: str
    sequence: int
    size: int


class ChangeFeed(Protocol):
    """What an index that follows the log reads of it, over all users. It has what has expired until that is removed.

    Its calls block: they are made in background threads. A feed belongs to the thread that opened it.
    """

    def position(self) -> LogPosition:
        """Return which log this is, and the sequence of its latest change."""

    def sequence(self) -> int:
        """Return the sequence of the latest change (0 in an empty log). The feed has everything up to there."""

    def end_position(self) -> FeedPosition:
        """Return the sequence of the latest change of each bucket. The feed has everything up to there."""

    def has_points(self, *, caller_vectors_only: bool) -> bool:
        """Return whether the log holds any message, or any with a caller's own vector."""

    def changes(self, after: int, limit: int) -> list[Change]:
        """Return up to `limit` entries of the feed with `sequence > after`, in order of sequence."""

    def change_refs(self, after: FeedPosition, until: FeedPosition, most: int, *, caller_vectors_only: bool) -> ChangeBatch:
        """Return the ids in the feed between two positions, without the messages: the first of each bucket.

        `until` is no further than the feed has come. `most` is how many changes of a bucket are gone through at once.
        With `caller_vectors_only`, stored messages without a caller's own vector are left out.
        """

    def by_ids(self, user_id: str, message_ids: Sequence[str]) -> dict[str, LoggedMessage]:
        """Resolve ids to the current versions; those that do not exist are not in the answer."""

    def users(self, after: str, limit: int) -> list[str]:
        """Return users who have messages, in order of their ids, beyond one."""

    def versions(self, user_id: str, until: int, *, caller_vectors_only: bool) -> list[StoredVersion]:
        """Return the messages of a user whose sequence is at most `until`, without their contents, in any order.

        With `caller_vectors_only`, messages without a caller's own vector are left out.
        """

    def by_sequences(self, sequences: Sequence[int]) -> dict[int, LoggedMessage]:
        """Resolve versions of any users; those that are gone are not in the answer."""

    def deleted_versions(self, sequences: Sequence[int]) -> list[DeletedVersion]:
        """Return those of some versions that are gone, or never were."""

    def embeddings(self, user_id: str, message_ids: Sequence[str]) -> Mapping[str, bytes]:
        """Return the callers' own vectors (little-endian float32) of those messages that brought one."""

    def close(self) -> None:
        """Close the connection."""
