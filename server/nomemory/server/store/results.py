"""Results of reads and writes of the message log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from nomemory.server.message import LoggedMessage
from nomemory.server.store.feed_position import FeedPosition


class WriteOutcome(Enum):
    """What a write did with one message."""

    CREATED = "created"
    UNCHANGED = "unchanged"
    REPLACED = "replaced"
    CONFLICT = "conflict"
    """Skipped: its id exists with other content. Only with `OnConflict.SKIP`."""


class OnConflict(Enum):
    """What to do with a message whose id exists with other content."""

    REFUSE = "refuse"
    """Refuse the whole batch."""
    SKIP = "skip"
    """Leave the stored version, store the rest of the batch."""
    REPLACE = "replace"
    """Replace the stored version with the new one."""


@dataclass(frozen=True, slots=True)
class Written:
    """The receipt of a batch: outcome and id of each message, and the sequence that covers all of them."""

    outcomes: tuple[WriteOutcome, ...]
    sequence: int
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Deleted:
    """The receipt of a deletion. `missing` are the ids that the user does not have."""

    deleted: int
    missing: tuple[str, ...]
    sequence: int


@dataclass(frozen=True, slots=True)
class Erased:
    """The receipt of an erasure. `was_known` tells whether the user ever had a message."""

    deleted: int
    sequence: int
    was_known: bool


@dataclass(frozen=True, slots=True)
class Removals:
    """The removals that the log has not forgotten: up to where they are, and whether they are many."""

    until: FeedPosition
    are_many: bool


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a user's total order `(ts, message_id)`."""

    ts_us: int
    message_id: str


@dataclass(frozen=True, slots=True)
class LogCounts:
    """How much the log holds, of one user or of all."""

    sequence: int
    messages: int
    users: int


class EncodedNeighbors(NamedTuple):
    """A message and those right before and after it, oldest first, each as the bytes of a ChatMessage."""

    before: list[bytes]
    anchor: bytes
    after: list[bytes]


class Neighbors(NamedTuple):
    """The messages right before and right after an anchor, both oldest first, without the anchor."""

    before: list[LoggedMessage]
    after: list[LoggedMessage]


@dataclass(frozen=True, slots=True)
class FirstPage:
    """The beginning of a listing: the sequence that pins it from now on, and messages as the bytes of ChatMessages."""

    pinned: int
    wires: list[bytes]

    def __len__(self) -> int:
        """Return how many messages it has."""
        return len(self.wires)


class ConversationSummary(NamedTuple):
    """What the messages of a conversation add up to. Times are microseconds since the epoch."""

    conversation_id: str
    first_us: int
    last_us: int
    messages: int


class UserCount(NamedTuple):
    """A user, and how many messages they have."""

    user_id: str
    messages: int
