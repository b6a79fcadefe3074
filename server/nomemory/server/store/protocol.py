"""The interface of the message log to the rest of the server.

An engine may be in this process or across a network: reads are awaited, and a read that answers at once never suspends.
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
    """Reads committed messages. Every read of messages is of one user. Belongs to one event loop.

    A read sees every write that was acknowledged before it began, and nothing that has expired by then. Each is one
    round trip where the engine is across a network.
    """

    async def identity(self) -> LogIdentity:
        """Return which log this is."""

    async def sequence(self) -> int:
        """Return the sequence of the latest change (0 in an empty log)."""

    async def end_position(self) -> FeedPosition:
        """Return the sequence of the latest change of each bucket."""

    async def user_sequence(self, user_id: str) -> int:
        """Return the sequence of the latest change to this user's messages (0 if there was none)."""

    async def counts(self, user_id: str | None, prefix: str = "") -> LogCounts:
        """Count messages and users; `sequence` is the latest of those that are counted.

        Counted is one user, or for None all users whose ids begin with a prefix, which is ASCII.
        """

    async def pending(self, after: FeedPosition, user_id: str | None, prefix: str = "") -> int:
        """Count the messages that came after a position, of the users whom `counts` counts."""

    async def page(
        self, user_id: str, narrowed: Filter, *, before: Position | None, pinned: int, limit: int
    ) -> list[LoggedMessage]:
        """Return up to `limit` versions with `sequence <= pinned`, newest first, strictly before a position."""

    async def encoded_page(
        self,
        user_id: str,
        narrowed: Filter,
        *,
        after: Position | None,
        pinned: int,
        limit: int,
        oldest_first: bool = False,
    ) -> list[bytes]:
        """Return what `page` gives as the bytes of ChatMessages, at half of the cost, in either order.

        They stand strictly after a position in that order.
        """

    async def first_encoded_page(self, user_id: str, narrowed: Filter, *, limit: int, oldest_first: bool = False) -> FirstPage:
        """Return what `wires` gives of the beginning of a listing, and what pins the rest of it, as of one moment."""

    async def count(self, user_id: str, narrowed: Filter) -> int:
        """Count the messages that a filter admits, as of one moment."""

    async def conversations(self, user_id: str, *, pinned: int) -> list[ConversationSummary]:
        """Return all conversations, the latest first: `last_us` descending, then `conversation_id` descending.

        Only versions with `sequence <= pinned` count; a conversation without any is not there.
        """

    async def users(self, *, after: str, limit: int, prefix: str = "") -> list[UserCount]:
        """Return up to `limit` users who have messages, by id: those after a text.

        A prefix, which is ASCII, narrows them to the users whose ids begin with it.
        """

    async def by_ids(self, user_id: str, message_ids: Sequence[str]) -> dict[str, LoggedMessage]:
        """Resolve ids; those that do not exist are not in the answer."""

    async def by_sequences(self, user_id: str, sequences: Sequence[int]) -> dict[int, LoggedMessage]:
        """Resolve versions; those that were deleted, replaced, or are another user's are not in the answer."""

    async def around(self, anchors: Sequence[LoggedMessage], before: int, after: int) -> list[Neighbors]:
        """Return, for each anchor, up to so many messages right before and right after it. All are of one user."""

    async def surroundings(self, user_id: str, message_id: str, before: int, after: int) -> EncodedNeighbors | None:
        """Return a message and up to so many right before and right after it; None if there is no such message."""

    async def close(self) -> None:
        """Close the connection."""


class LogWriter(Protocol):
    """Writes batches. A call returns when the log has committed durably; calls are grouped into one commit."""

    async def write(self, messages: Sequence[Message], *, on_conflict: OnConflict, request_id: str = "") -> Written:
        """Store a batch, all or nothing. Messages without an id get one; those of one user grow from write to write.

        Args:
            messages: the batch.
            on_conflict: what to do with a message whose id exists with something else in it.
            request_id: the same batch with the same one, which is not empty, gets the same ids again.

        Raises:
            Fault: MESSAGE_CONFLICT, naming every message whose id exists with something else in it (with
                `OnConflict.REFUSE`), or the `request_id` if it was another batch's; OVERLOADED if too much is queued;
                STORAGE_UNAVAILABLE if the disk refuses.
        """

    async def delete(self, user_id: str, message_ids: Sequence[str]) -> Deleted:
        """Delete messages of one user."""

    async def delete_matching(self, user_id: str, narrowed: Filter) -> Deleted:
        """Delete whatever a filter admits of one user, all or nothing."""

    async def erase(self, user_id: str) -> Erased:
        """Delete all messages of one user, and what the log remembers of their requests."""


class ErasableLog(Protocol):
    """Takes out of the log's files what deletions, replacements and expiry have left there, a piece at a time.

    First `forget`, when every index has the removals, then `give_back`, then `wipe`: each until there is no more to do.
    A piece that is done stays done, whatever happens to the process.
    """

    async def pending_removals(self, many: int) -> Removals | None:
        """Return what removals there are, and whether they are at least `many`; None if there are none."""

    async def forget_removals(self, until: FeedPosition, most: int) -> bool:
        """Forget up to `most` removals up to a position, and the users of whom nothing is left.

        Return whether there are more.
        """

    async def release_free_pages(self, most: int) -> bool:
        """Give back up to `most` pages of the file that hold nothing; return whether there may be more."""

    async def wipe_pages(self, after: int, most: int) -> int | None:
        """Overwrite what is left of removed rows in up to `most` pages after a page; return the last of these.

        None at the end of the file, when nothing is left in the write-ahead log either. The same page as was given
        means that a reader was in the way: try again.
        """
