"""What servers know of an index on a Qdrant server that all of them search and one fills.

That is kept beside the log, in its database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nomemory.server.log.position import FeedPosition


class SetAside(NamedTuple):
    """A message that can never be taken: the change up to which that is known, and why."""

    bucket: int
    user_id: str
    message_id: str
    latest: int
    reason: str


class UserReached(NamedTuple):
    """A user who is further than the bucket is."""

    bucket: int
    user_id: str
    sequence: int


class Filled(NamedTuple):
    """How far an index is: where the next filler goes on, and what can never be taken."""

    checkpoint: FeedPosition
    aside: Sequence[SetAside]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a filler has come.

    Attributes:
        checkpoint: up to where everything has been applied or set aside.
        users: some who are further.
        aside: what is set aside, if that may have changed.
    """

    checkpoint: FeedPosition = field(default_factory=FeedPosition)
    users: tuple[UserReached, ...] = ()
    aside: frozenset[SetAside] | None = None
