"""The interface of the message log; reads are coroutines, because the storage engine may be remote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nomemory.server.message import LoggedMessage, Message
from nomemory.server.message_filter import Filter
from nomemory.server.store.errors import LogUnusableError
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.position import LogIdentity
from nomemory.server.store.results import (
    ConversationSummary,
    DeletionReceipt,
    EncodedFirstPage,
    EncodedNeighbors,
    ErasureReceipt,
    LogCounts,
    MessagePosition,
    Neighbors,
    OnConflict,
    PendingRemovals,
    UserCount,
    WriteReceipt,
)


class LogMigratedError(LogUnusableError):
    """The message log of a data directory was migrated to a database."""


class LogReader(Protocol):
    """Reads committed messages of one user at a time. An instance belongs to one event loop.

    A read sees every write that was acknowledged before the read began, and no expired message. With a remote engine,
    each read takes one round trip.
    """

    async def read_identity(self) -> LogIdentity:
        """Return the identity of the message log."""

    async def read_sequence(self) -> int:
        """Return the sequence number of the latest change; 0 in an empty message log."""

    async def read_end_position(self) -> FeedPosition:
        """Return the sequence number of the latest change of each bucket."""

    async def read_user_sequence(self, user_id: str) -> int:
        """Return the sequence number of the latest change to a user's messages; 0 if there was none."""

    async def count_users_and_messages(self, user_id: str | None, prefix: str = "") -> LogCounts:
        """Count messages and users, and return the sequence number of the latest change to these users' messages.

        Without a `user_id`, all users whose ids begin with the ASCII `prefix` are counted.
        """

    async def count_pending(self, after: FeedPosition, user_id: str | None, prefix: str = "") -> int:
        """Count the messages whose sequence number is after a position of the change feed.

        Without a `user_id`, the messages of all users whose ids begin with the ASCII `prefix` are counted.
        """

    async def read_page(
        self, user_id: str, message_filter: Filter, *, before: MessagePosition | None, pinned: int, limit: int
    ) -> list[LoggedMessage]:
        """Return up to `limit` versions with `sequence <= pinned` that precede `before` in time order, newest first."""

    async def read_encoded_page(
        self,
        user_id: str,
        message_filter: Filter,
        *,
        after: MessagePosition | None,
        pinned: int,
        limit: int,
        oldest_first: bool = False,
    ) -> list[bytes]:
        """Return up to `limit` encoded ChatMessages with `sequence <= pinned` that follow the position `after`.

        The messages are ordered from newest to oldest unless `oldest_first` is set. Reading an encoded page takes half
        as long as reading a page of `LoggedMessage`s.
        """

    async def read_first_encoded_page(
        self, user_id: str, message_filter: Filter, *, limit: int, oldest_first: bool = False
    ) -> EncodedFirstPage:
        """Return the first page like `read_encoded_page`, with the snapshot sequence number of the following pages."""

    async def count_messages(self, user_id: str, message_filter: Filter) -> int:
        """Count the messages that match a filter."""

    async def list_conversations(self, user_id: str, *, pinned: int) -> list[ConversationSummary]:
        """Return all conversations, ordered by `last_us` and `conversation_id`, both descending.

        Only message versions with `sequence <= pinned` are counted; conversations without such versions are omitted.
        """

    async def list_users(self, *, after: str, limit: int, prefix: str = "") -> list[UserCount]:
        """Return up to `limit` users with messages, ordered by id; the ids begin with `prefix` and follow `after`."""

    async def read_messages(self, user_id: str, message_ids: Sequence[str]) -> dict[str, LoggedMessage]:
        """Return messages of a user by id; unknown ids are omitted."""

    async def read_versions(self, user_id: str, sequences: Sequence[int]) -> dict[int, LoggedMessage]:
        """Return a user's versions with the given sequence numbers as a dictionary; removed versions are omitted."""

    async def read_neighbors(self, anchors: Sequence[LoggedMessage], before: int, after: int) -> list[Neighbors]:
        """Return up to `before` messages before and up to `after` messages after each anchor, all of one user."""

    async def read_encoded_neighbors(
        self, user_id: str, message_id: str, before: int, after: int
    ) -> EncodedNeighbors | None:
        """Return a message with its neighbors, or None if the message does not exist."""

    async def close(self) -> None:
        """Close the connection."""


class LogWriter(Protocol):
    """Writes messages. Each method returns after a durable commit; concurrent calls may share a commit."""

    async def write(
        self, messages: Sequence[Message], *, on_conflict: OnConflict, request_id: str = ""
    ) -> WriteReceipt:
        """Store a batch of messages atomically; messages without an id get a generated id.

        The generated ids of a user increase.

        Args:
            messages: the messages to store, of any users.
            on_conflict: how to handle a message whose id exists with different content.
            request_id: an idempotency key; a repeated batch with the same key gets the same ids. Empty for none.

        Raises:
            Fault: MESSAGE_CONFLICT, an id exists with different content or the `request_id` was used for another batch;
                OVERLOADED, the queue is full; STORAGE_UNAVAILABLE, the engine cannot write.
        """

    async def delete(self, user_id: str, message_ids: Sequence[str]) -> DeletionReceipt:
        """Delete messages of one user."""

    async def delete_matching(self, user_id: str, message_filter: Filter) -> DeletionReceipt:
        """Delete the messages of a user that match a filter, atomically."""

    async def erase(self, user_id: str) -> ErasureReceipt:
        """Delete all messages and request records of a user."""


class ErasableLog(Protocol):
    """Erases the remains of deleted, replaced and expired messages from the message log's files, in small batches.

    After every index has applied the removals, call `delete_removals`, `release_free_pages` and
    `overwrite_unused_bytes` in this order, and repeat each call until no work remains. The results of completed batches
    are durable.
    """

    async def read_pending_removals(self, minimum: int) -> PendingRemovals | None:
        """Return the last removal's position, and whether at least `minimum` are pending; None if there is no work."""

    async def delete_removals(self, until: FeedPosition, limit: int) -> bool:
        """Delete up to `limit` removal records up to a position, and users without messages.

        Return whether more removal records up to that position remain.
        """

    async def release_free_pages(self, limit: int) -> bool:
        """Release up to `limit` free pages to the file system; return whether free pages may remain."""

    async def overwrite_unused_bytes(self, after: int, limit: int) -> int | None:
        """Overwrite the unused bytes of up to `limit` pages after the page `after`.

        Returns:
            The number of the last page that was overwritten; None if no page is left to overwrite and the write-ahead
            log is empty. If a reader blocks the operation, the value of `after` is returned and the call can be
            repeated.
        """
