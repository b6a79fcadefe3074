"""The interface of the message log.

All reads are coroutines, because the storage engine may be remote.
"""

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
    Deleted,
    EncodedNeighbors,
    Erased,
    FirstPage,
    LogCounts,
    Neighbors,
    OnConflict,
    Position,
    Removals,
    UserCount,
    Written,
)


class LogMigratedError(LogUnusableError):
    """The log was migrated to a database."""


class LogReader(Protocol):
    """Reads committed messages of one user at a time. An instance belongs to one event loop.

    A read sees every write that was acknowledged before the read began, and no expired message. With a remote engine,
    each read is one round trip.
    """

    async def identity(self) -> LogIdentity:
        """Return the identity of the log."""

    async def sequence(self) -> int:
        """Return the sequence of the latest change; 0 in an empty log."""

    async def end_position(self) -> FeedPosition:
        """Return the sequence of the latest change of each bucket."""

    async def user_sequence(self, user_id: str) -> int:
        """Return the sequence of the latest change to a user's messages; 0 if there was none."""

    async def counts(self, user_id: str | None, prefix: str = "") -> LogCounts:
        """Count messages and users, and return the latest sequence of these users.

        Args:
            user_id: the id of the user; None for all users whose ids begin with `prefix`.
            prefix: an ASCII prefix of user ids.
        """

    async def pending(self, after: FeedPosition, user_id: str | None, prefix: str = "") -> int:
        """Count the messages after a position. The users are selected as in `counts`."""

    async def page(
        self, user_id: str, message_filter: Filter, *, before: Position | None, pinned: int, limit: int
    ) -> list[LoggedMessage]:
        """Return up to `limit` versions with `sequence <= pinned`, newest first, strictly before a position."""

    async def encoded_page(
        self,
        user_id: str,
        message_filter: Filter,
        *,
        after: Position | None,
        pinned: int,
        limit: int,
        oldest_first: bool = False,
    ) -> list[bytes]:
        """Return up to `limit` encoded ChatMessages with `sequence <= pinned`, strictly after a position.

        A call costs half as much as `page`.
        """

    async def first_encoded_page(
        self, user_id: str, message_filter: Filter, *, limit: int, oldest_first: bool = False
    ) -> FirstPage:
        """Return the first page in the format of `encoded_page`, and the sequence that pins the following pages."""

    async def count(self, user_id: str, message_filter: Filter) -> int:
        """Count the messages that match a filter."""

    async def conversations(self, user_id: str, *, pinned: int) -> list[ConversationSummary]:
        """Return all conversations, ordered by `last_us` and `conversation_id`, both descending.

        Only versions with `sequence <= pinned` are counted. Conversations without such versions are left out.
        """

    async def users(self, *, after: str, limit: int, prefix: str = "") -> list[UserCount]:
        """Return up to `limit` users who have messages, ordered by id.

        Args:
            after: only ids greater than this one.
            limit: the maximum number of users.
            prefix: only ids that begin with this ASCII prefix.
        """

    async def by_ids(self, user_id: str, message_ids: Sequence[str]) -> dict[str, LoggedMessage]:
        """Return messages by id. Unknown ids are left out."""

    async def by_sequences(self, user_id: str, sequences: Sequence[int]) -> dict[int, LoggedMessage]:
        """Return messages by sequence. Versions that were removed or belong to another user are left out."""

    async def neighbors(self, anchors: Sequence[LoggedMessage], before: int, after: int) -> list[Neighbors]:
        """Return up to `before` messages before and up to `after` messages after each anchor, all of one user."""

    async def encoded_neighbors(
        self, user_id: str, message_id: str, before: int, after: int
    ) -> EncodedNeighbors | None:
        """Return a message and its neighbors, as `neighbors` does; None if the message does not exist."""

    async def close(self) -> None:
        """Close the connection."""


class LogWriter(Protocol):
    """Writes messages. A call returns after a durable commit. Concurrent calls share one commit."""

    async def write(self, messages: Sequence[Message], *, on_conflict: OnConflict, request_id: str = "") -> Written:
        """Store a batch atomically. Messages without an id get a generated one; the generated ids of a user increase.

        Args:
            messages: the batch.
            on_conflict: how to handle a message whose id exists with other content.
            request_id: an idempotency key: a repeated batch with the same key gets the same ids. Empty for none.

        Raises:
            Fault: MESSAGE_CONFLICT, naming every message whose id exists with other content (with
                `OnConflict.REFUSE`), or the `request_id` if it was used for another batch; OVERLOADED, the queue is
                full; STORAGE_UNAVAILABLE, the engine cannot write.
        """

    async def delete(self, user_id: str, message_ids: Sequence[str]) -> Deleted:
        """Delete messages of one user."""

    async def delete_matching(self, user_id: str, message_filter: Filter) -> Deleted:
        """Delete the messages of a user that match a filter, atomically."""

    async def erase(self, user_id: str) -> Erased:
        """Delete all messages and request records of a user."""


class ErasableLog(Protocol):
    """Erases the remains of deleted, replaced and expired messages from the log's files, in small batches.

    When every index has applied the removals, call `forget_removals`, `release_free_pages` and `wipe_pages`, in this
    order, and repeat each call until nothing is left. Completed batches survive a crash.
    """

    async def pending_removals(self, many: int) -> Removals | None:
        """Return the pending removals, and whether there are at least `many` of them; None if there are none."""

    async def forget_removals(self, until: FeedPosition, limit: int) -> bool:
        """Delete up to `limit` removals up to a position, and users without messages.

        Returns:
            Whether there are more removals to delete.
        """

    async def release_free_pages(self, limit: int) -> bool:
        """Return up to `limit` free pages to the file system; return whether there may be more."""

    async def wipe_pages(self, after: int, limit: int) -> int | None:
        """Overwrite the unused bytes of up to `limit` pages.

        Args:
            after: the number of the page after which to start.
            limit: the maximum number of pages.

        Returns:
            The last page that was wiped. None means that the end of the file was reached and the write-ahead log is
            empty. The value of `after` means that a reader blocked the operation, which can be retried.
        """
