"""How far the vector index is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nomemory.server.store.feed_position import FeedPosition


@dataclass(frozen=True, slots=True)
class IndexerStatus:
    """The state of an index, of one user or of all.

    Attributes:
        fed: the position up to which changes are in the backlog. Later ones are not counted here.
        checkpoint: the position up to which everything is in the index or a dead letter.
        pending: number of messages in the backlog.
        dead_letters: number of dead letters.
        dead_letter_ids: ids of the first dead letters of the user.
    """

    fed: FeedPosition
    checkpoint: FeedPosition
    pending: int
    dead_letters: int
    dead_letter_ids: tuple[str, ...]


class DeadLetter(NamedTuple):
    """A message that cannot be embedded: the latest change that is known of it, and the reason."""

    bucket: int
    user_id: str
    message_id: str
    latest: int
    reason: str


class UserCheckpoint(NamedTuple):
    """A user whose changes are applied further than those of the bucket."""

    bucket: int
    user_id: str
    sequence: int


class IndexCheckpoint(NamedTuple):
    """The state from which another server goes on filling a shared index."""

    checkpoint: FeedPosition
    dead_letters: Sequence[DeadLetter]


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """The state that the server which fills a shared index publishes.

    Attributes:
        checkpoint: the position up to which everything is in the index or a dead letter.
        users: some users who are further.
        dead_letters: all dead letters; None if they have not changed.
    """

    checkpoint: FeedPosition = field(default_factory=FeedPosition)
    users: tuple[UserCheckpoint, ...] = ()
    dead_letters: frozenset[DeadLetter] | None = None
