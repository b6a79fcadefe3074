"""The change feed of the message log, which the indexes follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from nomemory.server.message import LoggedMessage
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.position import LogPosition


class ChangeRef(NamedTuple):
    """A reference to a changed message, with the sequence number of the change."""

    sequence: int
    user_id: str
    message_id: str


class ChangeBatch(NamedTuple):
    """A batch of changes in no particular order, which contains all changes up to the position `until`."""

    entries: list[ChangeRef]
    until: FeedPosition


class DeletedVersion(NamedTuple):
    """A message version that is no longer in the message log.

    Attributes:
        removal: the change that removed the version; None if the change is unknown or was purged.
    """

    sequence: int
    removal: ChangeRef | None


class Change(NamedTuple):
    """An entry of the change feed.

    The feed omits versions that were removed before the feed is read.

    Attributes:
        stored: the current version of the message; None for a removal or a damaged message.
        removed_sequence: the sequence number of the deleted or replaced version; None if the change removed no version.
    """

    sequence: int
    user_id: str
    message_id: str
    stored: LoggedMessage | None = None
    removed_sequence: int | None = None


class StoredVersion(NamedTuple):
    """A message version without its content; `size` is the size of the encoded message in bytes."""

    message_id: str
    sequence: int
    size: int


class ChangeFeed(Protocol):
    """Reads the changes of all users. Expired messages are included until they are removed.

    All methods block, and must be called in the background thread that opened the feed.
    """

    def read_position(self) -> LogPosition:
        """Return the identity of the message log and its latest sequence number."""

    def read_sequence(self) -> int:
        """Return the sequence number of the latest change; 0 in an empty message log."""

    def read_end_position(self) -> FeedPosition:
        """Return the sequence number of the latest change of each bucket."""

    def has_messages(self, *, caller_vectors_only: bool) -> bool:
        """Return whether the message log has a message, or, with `caller_vectors_only`, a caller-supplied vector."""

    def read_changes(self, after: int, limit: int) -> list[Change]:
        """Return up to `limit` changes with `sequence > after`, ordered by sequence number."""

    def read_change_refs(
        self, after: FeedPosition, until: FeedPosition, limit: int, *, caller_vectors_only: bool
    ) -> ChangeBatch:
        """Return the changes after the position `after` and up to `until`, without the messages.

        Args:
            after: the position after which changes are returned.
            until: the position up to which changes are returned, at most the end of the message log.
            limit: maximum number of changes to scan.
            caller_vectors_only: whether to omit stored messages without a caller-supplied vector.
        """

    def read_messages(self, user_id: str, message_ids: Sequence[str]) -> dict[str, LoggedMessage]:
        """Return the current versions of a user's messages by id; unknown ids are omitted."""

    def list_users(self, after: str, limit: int) -> list[str]:
        """Return up to `limit` users who have messages, in the order of their ids, starting after the id `after`."""

    def list_versions(self, user_id: str, until: int, *, caller_vectors_only: bool) -> list[StoredVersion]:
        """Return the message versions of a user with `sequence <= until`, in no particular order and without content.

        With `caller_vectors_only`, messages without a caller-supplied vector are omitted.
        """

    def read_versions(self, sequences: Sequence[int]) -> dict[int, LoggedMessage]:
        """Return the versions with the given sequence numbers as a dictionary; removed versions are omitted."""

    def find_deleted_versions(self, sequences: Sequence[int]) -> list[DeletedVersion]:
        """Return the versions with the specified sequence numbers that are no longer in the message log."""

    def read_embeddings(self, user_id: str, message_ids: Sequence[str]) -> Mapping[str, bytes]:
        """Return the vectors that callers stored with messages, by message id, as little-endian float32 values."""

    def close(self) -> None:
        """Close the connection."""
