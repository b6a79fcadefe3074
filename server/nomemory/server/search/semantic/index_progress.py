"""The progress of the vector index: status, checkpoints and dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nomemory.server.store.feed_position import FeedPosition


@dataclass(frozen=True, slots=True)
class IndexerStatus:
    """The status of a vector index, for one user or all users.

    Attributes:
        feed_position: the position up to which changes were copied to the backlog. Later changes are not counted
            as pending.
        checkpoint: the position up to which every change is in the index or a dead letter.
        pending: the number of messages in the backlog.
        dead_letter_ids: the message ids of the first dead letters of the user.
    """

    feed_position: FeedPosition
    checkpoint: FeedPosition
    pending: int
    dead_letters: int
    dead_letter_ids: tuple[str, ...]


class DeadLetter(NamedTuple):
    """A message that cannot be embedded, with the sequence number of its latest known change and the reason."""

    bucket: int
    user_id: str
    message_id: str
    latest: int
    reason: str


class UserCheckpoint(NamedTuple):
    """The checkpoint of a user, if it is later than the checkpoint of the user's bucket."""

    bucket: int
    user_id: str
    sequence: int


class IndexCheckpoint(NamedTuple):
    """The state from which another server can continue to build a shared index."""

    checkpoint: FeedPosition
    dead_letters: Sequence[DeadLetter]


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """The state that the indexing leader of a shared index publishes.

    Attributes:
        checkpoint: the position up to which every change is in the index or a dead letter.
        user_checkpoints: the checkpoints of single users that are later than `checkpoint`.
        dead_letters: all dead letters; None if they are unchanged since the last publication.
    """

    checkpoint: FeedPosition = field(default_factory=FeedPosition)
    user_checkpoints: tuple[UserCheckpoint, ...] = ()
    dead_letters: frozenset[DeadLetter] | None = None
