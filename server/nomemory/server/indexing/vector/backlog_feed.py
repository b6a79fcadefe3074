"""Feed the backlog of the vector index from the change feed of the message log, and look up the work in the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from nomemory.server import wire
from nomemory.server.embedding.vector import Vector
from nomemory.server.indexing.vector.backlog import Backlog, Pending
from nomemory.server.indexing.vector.desired_points import DesiredPoints, usable_caller_vector
from nomemory.server.indexing.vector.expected_points import ExpectedPoints
from nomemory.server.message import LoggedMessage
from nomemory.server.search.semantic.index_progress import DeadLetter, IndexProgress, UserCheckpoint
from nomemory.server.store.buckets import bucket_of
from nomemory.server.store.change_feed import ChangeFeed, ChangeRef
from nomemory.server.store.feed_position import FeedPosition

_MAX_CHANGES: Final = 256
"""Changes that are read at once where every message is work."""
_MAX_CHANGES_WITHOUT_EMBEDDER: Final = 4096
"""The same where only messages with a caller's vector are."""


@dataclass
class BacklogFeed:
    """Reads the change feed, hands out work and records results. Belongs to one thread.

    Attributes:
        log: the change feed, opened in that thread and closed with this object.
        backlog: the work.
        dimension: length of a usable caller's vector.
        split: returns the texts to embed of a content. None without an embedder: then only messages with a caller's
            vector are work.
        is_shared: whether several servers share the index. Then this one fills it only between `start_leading` and
            `stop_leading`.
        log_name: the name of the log (`LogIdentity.name`).
    """

    log: ChangeFeed
    backlog: Backlog
    dimension: int
    split: Callable[[str], Sequence[str]] | None
    is_shared: bool = False
    log_name: str = field(init=False)
    _is_leading: bool = field(init=False)
    _may_have_dead_letters: bool = field(default=True, init=False)
    _stored_before: int = field(init=False)
    """Up to this sequence, an earlier run may have stored messages."""

    def __post_init__(self) -> None:
        """Have the backlog follow this log."""
        self.log_name = self.log.position().identity.name
        self.backlog.follow(self.log_name)
        self._is_leading = not self.is_shared
        self._stored_before = self.log.sequence()

    def feed(self) -> bool:
        """Read a batch of changes into the backlog; return whether there may be more.

        The end of the log is read first, so that a feed that ends has every change up to it.
        """
        fed, end = self.backlog.fed(), self.log_end()
        if fed.covers(end):
            return False
        limit = _MAX_CHANGES if self.split else _MAX_CHANGES_WITHOUT_EMBEDDER
        taken = self.log.change_refs(fed, end, limit, caller_vectors_only=self.split is None)
        self.backlog.feed(taken.entries, taken.until)
        return not taken.until.covers(end)

    def restart_empty(self) -> bool:
        """Note that the index is empty; return whether it was not so before, and the feed is read from its start."""
        self._stored_before = 0
        is_lost = self.backlog.checkpoint().latest > 0
        if is_lost:
            self.backlog.start_over()
        return is_lost

    def log_has_points(self) -> bool:
        """Return whether the log has messages that can have points."""
        return self.log.has_points(caller_vectors_only=self.split is None)

    def requeue(self, changes: Iterable[ChangeRef]) -> None:
        """Put messages into the backlog again."""
        if self._is_leading:
            self.backlog.feed(changes)

    def is_leading(self) -> bool:
        """Return whether this server fills the index."""
        return self._is_leading

    def start_leading(self, checkpoint: FeedPosition, dead_letters: Iterable[DeadLetter]) -> None:
        """Fill a shared index, from a checkpoint on."""
        known = list(dead_letters)
        self._stored_before = self.log.sequence()
        self._may_have_dead_letters |= bool(known)
        self.backlog.start_over(checkpoint, known)
        self._is_leading = True

    def stop_leading(self) -> None:
        """Stop filling a shared index."""
        self._is_leading = False
        self.backlog.start_over()

    def progress(self, hot_users: Sequence[str]) -> IndexProgress:
        """Return the checkpoint, and the users and dead letters beside it."""
        checkpoint, fed = self.backlog.checkpoint(), self.backlog.fed()
        further = [
            UserCheckpoint(bucket_of(user), user, fed.of_user(user))
            for user in hot_users
            if checkpoint.of_user(user) < fed.of_user(user) and not self.backlog.is_pending(user)
        ]
        dead = frozenset(DeadLetter(*row) for row in self.backlog.aside()) if self._may_have_dead_letters else None
        self._may_have_dead_letters = bool(dead)
        return IndexProgress(checkpoint, tuple(further), dead)

    def log_end(self) -> FeedPosition:
        """Return the end of the log; the beginning, where another server fills the index."""
        return self.log.end_position() if self._is_leading else FeedPosition()

    def expected_points(self, part_chars: int) -> ExpectedPoints:
        """Return what compares the index with the log. It belongs to the same thread."""
        return ExpectedPoints(self.log, self.backlog.known, self.dimension, part_chars, self.split)

    def next_work(self, hot_users: Sequence[str], limit: int) -> list[DesiredPoints]:
        """Return the next messages with the points that the index should hold of them."""
        items = self.backlog.take(hot_users, limit)
        desired: dict[Pending, DesiredPoints] = {}
        for user_id, group in groupby(sorted(items, key=lambda item: item.user_id), key=lambda item: item.user_id):
            of_user = list(group)
            ids = [item.message_id for item in of_user]
            versions, vectors = self.log.by_ids(user_id, ids), self.log.embeddings(user_id, ids)
            for item in of_user:
                desired[item] = self._desired(item, versions.get(item.message_id), vectors.get(item.message_id))
        return [desired[item] for item in items]

    def settle(self, done: Iterable[Pending], refused: Mapping[Pending, str]) -> None:
        """Record which messages are in the index, and which became dead letters for which reason."""
        self.backlog.mark_applied(done)
        self.backlog.park(refused)
        self._may_have_dead_letters |= bool(refused)

    def close(self) -> None:
        """Close the change feed."""
        self.log.close()

    def _desired(self, item: Pending, version: LoggedMessage | None, vector: Vector | None) -> DesiredPoints:
        if version is None:
            return DesiredPoints(item)
        message = wire.decode(version.wire)
        usable = usable_caller_vector(vector, self.dimension)
        texts = tuple(self.split(message.content)) if self.split and not usable else ()
        return DesiredPoints(item, message, version.sequence, self._is_new(item, version), texts, usable)

    def _is_new(self, item: Pending, version: LoggedMessage) -> bool:
        """Return whether no version was ever stored: there was one change only, in this run, and it is this version.

        Replacing or deleting a version is a change, too. Half of a replacement is not the version itself.
        """
        return item.is_single and item.latest == version.sequence > self._stored_before
