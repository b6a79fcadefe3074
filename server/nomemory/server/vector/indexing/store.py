"""The storage side of the vector indexer: it reads the log's feed and keeps the backlog."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from nomemory.server import wire
from nomemory.server.embedding.vector import Vector
from nomemory.server.log.feed import ChangeFeed, Touched
from nomemory.server.log.position import FeedPosition, bucket_of
from nomemory.server.message import LoggedMessage, Message, marks_of
from nomemory.server.vector.indexing.backlog import Backlog, Pending
from nomemory.server.vector.indexing.comparison import ExpectedPoints, usable_vector
from nomemory.server.vector.protocol import VectorPoint
from nomemory.server.vector.space import Progress, SetAside, UserReached

_FEED_MAX, _FEED_MAX_OF_OWN = 256, 4096
"""Sequences that are taken in at once: where all messages are work, and where only few are."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the index should hold of a message: a vector for each of the texts, or the caller's own, or nothing.

    Of one that `is_new` the index has nothing yet that would have to go. `kept` are the vectors that it has already.
    """

    item: Pending
    message: Message | None = None
    sequence: int = 0
    is_new: bool = False
    texts: tuple[str, ...] = ()
    own: Vector | None = None
    kept: tuple[Vector, ...] = ()

    def points(self, vectors: Sequence[Vector]) -> list[VectorPoint]:
        """Make the points, given the vectors of the texts."""
        message = self.message
        if message is None:
            return []
        parts = self.kept or (vectors if self.own is None else [self.own])
        marks = marks_of(message.metadata.items())
        return [
            VectorPoint(
                message.user_id,
                message.message_id,
                part,
                self.sequence,
                message.ts_us,
                message.role,
                message.conversation_id,
                vector,
                marks,
            )
            for part, vector in enumerate(parts)
        ]


@dataclass
class IndexingStore:
    """Reads the log's feed, hands out work, and records the results. Belongs to one thread.

    Attributes:
        log: the log's feed, opened in that thread; closed with the store.
        backlog: the work.
        dimension: how many numbers a caller's own vector must have to be used.
        cut: makes the texts to embed of a content. None, where there is no embedder: then only messages with a vector
            of the caller's own are work.
        is_shared: whether other servers may fill the index, too. Then this one does between `hold` and `let_go`.
        log_name: the name of the log (`LogIdentity.name`).
    """

    log: ChangeFeed
    backlog: Backlog
    dimension: int
    cut: Callable[[str], Sequence[str]] | None
    is_shared: bool = False
    log_name: str = field(init=False)
    _fills: bool = field(init=False)
    _may_be_aside: bool = field(default=True, init=False)
    _maybe_stored: int = field(init=False)
    """The sequence up to which an earlier run may have stored messages."""

    def __post_init__(self) -> None:
        """Have the backlog follow this log."""
        self.log_name = self.log.position().identity.name
        self.backlog.follow(self.log_name)
        self._fills = not self.is_shared
        self._maybe_stored = self.log.sequence()

    def feed(self) -> bool:
        """Take in a batch of the feed; False if that was the end of it.

        How far the log is is read first, so that a feed that ends has everything up to there.
        """
        fed, reached = self.backlog.fed(), self.reached()
        if fed.has(reached):
            return False
        most = _FEED_MAX if self.cut else _FEED_MAX_OF_OWN
        taken = self.log.touched(fed, reached, most, own_vectors_only=self.cut is None)
        self.backlog.feed(taken.entries, taken.until)
        return not taken.until.has(reached)

    def begin_empty(self) -> bool:
        """Note that the index is empty. If it should hold something, the feed is read from its beginning: True."""
        self._maybe_stored = 0
        is_lost = self.backlog.checkpoint().latest > 0
        if is_lost:
            self.backlog.start_over()
        return is_lost

    def has_points(self) -> bool:
        """Return whether the log has anything that the index may hold."""
        return self.log.has_points(own_vectors_only=self.cut is None)

    def take_again(self, changes: Iterable[Touched]) -> None:
        """Make work of messages once more."""
        if self._fills:
            self.backlog.feed(changes)

    def fills(self) -> bool:
        """Return whether this server fills the index."""
        return self._fills

    def hold(self, checkpoint: FeedPosition, aside: Iterable[SetAside]) -> None:
        """Fill an index that is shared, from a position on."""
        known = list(aside)
        self._maybe_stored = self.log.sequence()
        self._may_be_aside |= bool(known)
        self.backlog.start_over(checkpoint, known)
        self._fills = True

    def let_go(self) -> None:
        """Fill the index no longer."""
        self._fills = False
        self.backlog.start_over()

    def progress(self, hot_users: Sequence[str]) -> Progress:
        """Return how far the index is."""
        checkpoint, fed = self.backlog.checkpoint(), self.backlog.fed()
        further = [
            UserReached(bucket_of(user), user, fed.of_user(user))
            for user in hot_users
            if checkpoint.of_user(user) < fed.of_user(user) and not self.backlog.is_pending(user)
        ]
        aside = frozenset(SetAside(*one) for one in self.backlog.aside()) if self._may_be_aside else None
        self._may_be_aside = bool(aside)
        return Progress(checkpoint, tuple(further), aside)

    def reached(self) -> FeedPosition:
        """Return how far the log is; nowhere, where another server fills the index."""
        return self.log.reached() if self._fills else FeedPosition()

    def expected_points(self, part_chars: int) -> ExpectedPoints:
        """Return what compares the index with the log; it belongs to this store's thread, too."""
        return ExpectedPoints(self.log, self.backlog.known, self.dimension, part_chars, self.cut)

    def next_work(self, hot_users: Sequence[str], limit: int) -> list[Wanted]:
        """Take the next messages and look up what the index should hold of them."""
        items = self.backlog.take(hot_users, limit)
        wanted: dict[Pending, Wanted] = {}
        for user_id, group in groupby(sorted(items, key=lambda item: item.user_id), key=lambda item: item.user_id):
            of_user = list(group)
            ids = [item.message_id for item in of_user]
            versions, own = self.log.by_ids(user_id, ids), self.log.embeddings(user_id, ids)
            for item in of_user:
                wanted[item] = self._wanted(item, versions.get(item.message_id), own.get(item.message_id))
        return [wanted[item] for item in items]

    def settle(self, done: Iterable[Pending], refused: Mapping[Pending, str]) -> None:
        """Record which messages the index has, and which it can never have and why."""
        self.backlog.mark_applied(done)
        self.backlog.park(refused)
        self._may_be_aside |= bool(refused)

    def close(self) -> None:
        """Close the feed."""
        self.log.close()

    def _wanted(self, item: Pending, version: LoggedMessage | None, own: Vector | None) -> Wanted:
        if version is None:
            return Wanted(item)
        message = wire.decode(version.wire)
        usable = usable_vector(own, self.dimension)
        texts = tuple(self.cut(message.content)) if self.cut and not usable else ()
        return Wanted(item, message, version.sequence, self._is_new(item, version), texts, usable)

    def _is_new(self, item: Pending, version: LoggedMessage) -> bool:
        """Return whether no version was ever stored: there was but one change, in this run, and it is this version.

        Whatever replaces or deletes a version is a change, too; half of a replacement is not the version itself.
        """
        return item.is_single and item.latest == version.sequence > self._maybe_stored
