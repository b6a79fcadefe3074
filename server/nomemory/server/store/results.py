"""Results of reads and writes of the message log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from nomemory.server.message import LoggedMessage
from nomemory.server.store.feed_position import FeedPosition


class WriteOutcome(Enum):
    """The outcome of writing one message."""

    CREATED = "created"
    UNCHANGED = "unchanged"
    REPLACED = "replaced"
    CONFLICT = "conflict"
    """Skipped, because the id exists with other content. Only with `OnConflict.SKIP`."""


class OnConflict(Enum):
    """The policy of a write for a message whose id exists with different content."""

    REFUSE = "refuse"
    """Reject the whole batch."""
    SKIP = "skip"
    """Keep the stored version and store the rest of the batch."""
    REPLACE = "replace"
    """Replace the stored version."""


@dataclass(frozen=True, slots=True)
class WriteReceipt:
    """The outcome and id of each message of a batch, and a sequence number.

    Attributes:
        sequence: a sequence number that is at least as high as that of every message of the batch.
    """

    outcomes: tuple[WriteOutcome, ...]
    sequence: int
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeletionReceipt:
    """The result of deleting messages. `missing` contains the requested ids that do not exist."""

    deleted: int
    missing: tuple[str, ...]
    sequence: int


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """The result of deleting all data of a user. `was_known` is true if the user existed."""

    deleted: int
    sequence: int
    was_known: bool


@dataclass(frozen=True, slots=True)
class PendingRemovals:
    """The position of the last pending removal, and whether at least the requested number is pending."""

    until: FeedPosition
    are_many: bool


@dataclass(frozen=True, slots=True)
class MessagePosition:
    """A position in a user's messages, which are ordered by `(ts, message_id)`."""

    ts_us: int
    message_id: str


@dataclass(frozen=True, slots=True)
class LogCounts:
    """The number of messages and users, and the sequence number of the latest change to these users' messages."""

    sequence: int
    messages: int
    users: int


class EncodedNeighbors(NamedTuple):
    """A message and its adjacent messages, oldest first, each an encoded ChatMessage."""

    before: list[bytes]
    anchor: bytes
    after: list[bytes]


class Neighbors(NamedTuple):
    """The messages directly before and after an anchor, oldest first."""

    before: list[LoggedMessage]
    after: list[LoggedMessage]


@dataclass(frozen=True, slots=True)
class EncodedFirstPage:
    """The first page of a listing, with encoded ChatMessages.

    Attributes:
        pinned: the snapshot sequence number of the following pages, which do not contain later changes.
    """

    pinned: int
    messages: list[bytes]

    def __len__(self) -> int:
        """Return the number of messages."""
        return len(self.messages)


class ConversationSummary(NamedTuple):
    """The number of messages of a conversation, and the Unix times of its first and last message in microseconds."""

    conversation_id: str
    first_us: int
    last_us: int
    messages: int


class UserCount(NamedTuple):
    """A user and the number of their messages."""

    user_id: str
    messages: int
