"""Fill the backlog of the vector index from the change feed, and look up pending messages in the message log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from nomemory.server import wire
from nomemory.server.embedding.vector import Vector
from nomemory.server.indexing.vector.backlog import Backlog, PendingMessage
from nomemory.server.indexing.vector.desired_points import DesiredPoints, normalize_caller_vector
from nomemory.server.indexing.vector.expected_points import ExpectedPoints
from nomemory.server.message import LoggedMessage
from nomemory.server.search.semantic.index_progress import DeadLetter, IndexProgress, UserCheckpoint
from nomemory.server.store.buckets import compute_bucket
from nomemory.server.store.change_feed import ChangeFeed, ChangeRef
from nomemory.server.store.feed_position import FeedPosition

_MAX_CHANGES: Final = 256
"""Number of changes to read at once if every message is indexed."""
_MAX_CHANGES_WITHOUT_EMBEDDER: Final = 4096
"""Number of changes to read at once if only messages with a caller's vector are indexed."""


@dataclass
class BacklogFeed:
    """Fills the backlog, reads pending messages and records the results. A backlog feed belongs to one thread.

    Attributes:
        log: the change feed of the message log, which is closed together with the backlog feed.
        dimension: the dimension of the vectors in the index; caller vectors of another dimension are ignored.
        split: splits the content of a message into the texts to embed; None if there is no embedder, so that only
            messages with a caller's vector are indexed.
        is_shared: whether several servers share the index; if they do, this server fills the index only between
            `start_leading` and `stop_leading`.
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
    """An earlier run may have indexed messages up to this sequence number."""

    def __post_init__(self) -> None:
        self.log_name = self.log.read_position().identity.name
        self.backlog.record_log(self.log_name)
        self._is_leading = not self.is_shared
        self._stored_before = self.log.read_sequence()

    def copy_changes(self) -> bool:
        """Copy a batch of changes from the feed to the backlog; return whether there may be more changes."""
        fed, end = self.backlog.read_feed_position(), self.read_log_end()
        if fed.is_at_or_after(end):
            return False
        limit = _MAX_CHANGES if self.split else _MAX_CHANGES_WITHOUT_EMBEDDER
        batch = self.log.read_change_refs(fed, end, limit, caller_vectors_only=self.split is None)
        self.backlog.add_changes(batch.entries, batch.until)
        return not batch.until.is_at_or_after(end)

    def record_empty_index(self) -> bool:
        """Record that the index is empty, and return whether its points were lost.

        If points were lost, the backlog starts over from the beginning of the feed.
        """
        self._stored_before = 0
        is_lost = self.backlog.read_checkpoint().latest > 0
        if is_lost:
            self.backlog.start_over()
        return is_lost

    def has_messages_to_index(self) -> bool:
        """Return whether the message log has messages to index."""
        return self.log.has_messages(caller_vectors_only=self.split is None)

    def requeue_changes(self, changes: Iterable[ChangeRef]) -> None:
        """Add changed messages to the backlog again, if this server fills the index."""
        if self._is_leading:
            self.backlog.add_changes(changes)

    def is_leading(self) -> bool:
        """Return whether this server fills the index."""
        return self._is_leading

    def start_leading(self, checkpoint: FeedPosition, dead_letters: Iterable[DeadLetter]) -> None:
        """Start filling a shared index from a checkpoint."""
        letters = list(dead_letters)
        self._stored_before = self.log.read_sequence()
        self._may_have_dead_letters |= bool(letters)
        self.backlog.start_over(checkpoint, letters)
        self._is_leading = True

    def stop_leading(self) -> None:
        """Stop filling a shared index, and clear the backlog."""
        self._is_leading = False
        self.backlog.start_over()

    def read_progress(self, hot_users: Sequence[str]) -> IndexProgress:
        """Return the checkpoint, the later checkpoints of recently queried users, and the dead letters.

        Instead of the dead letters, None is returned if the previous result had no dead letters and none were added
        since.
        """
        checkpoint, fed = self.backlog.read_checkpoint(), self.backlog.read_feed_position()
        ahead = [
            UserCheckpoint(compute_bucket(user), user, fed.get_user_sequence(user))
            for user in hot_users
            if checkpoint.get_user_sequence(user) < fed.get_user_sequence(user)
            and not self.backlog.has_pending_messages(user)
        ]
        dead = (
            frozenset(DeadLetter(*row) for row in self.backlog.list_dead_letters())
            if self._may_have_dead_letters
            else None
        )
        self._may_have_dead_letters = bool(dead)
        return IndexProgress(checkpoint, tuple(ahead), dead)

    def read_log_end(self) -> FeedPosition:
        """Return the end of the message log, or the zero position if another server fills the index."""
        return self.log.read_end_position() if self._is_leading else FeedPosition()

    def make_expected_points(self, part_chars: int) -> ExpectedPoints:
        """Create an `ExpectedPoints` for this message log, to be used in the thread of this feed."""
        return ExpectedPoints(self.log, self.backlog.find_tracked_ids, self.dimension, part_chars, self.split)

    def read_pending_messages(self, hot_users: Sequence[str], limit: int) -> list[DesiredPoints]:
        """Return the next pending messages, each with the points that the index should have."""
        items = self.backlog.read_pending_messages(hot_users, limit)
        desired: dict[PendingMessage, DesiredPoints] = {}
        for user_id, group in groupby(sorted(items, key=lambda item: item.user_id), key=lambda item: item.user_id):
            of_user = list(group)
            ids = [item.message_id for item in of_user]
            versions, vectors = self.log.read_messages(user_id, ids), self.log.read_embeddings(user_id, ids)
            for item in of_user:
                desired[item] = self._build_desired_points(
                    item, versions.get(item.message_id), vectors.get(item.message_id)
                )
        return [desired[item] for item in items]

    def record_results(self, done: Iterable[PendingMessage], refused: Mapping[PendingMessage, str]) -> None:
        """Record the indexed messages, and the rejected messages with their reasons."""
        self.backlog.mark_applied(done)
        self.backlog.add_dead_letters(refused)
        self._may_have_dead_letters |= bool(refused)

    def close(self) -> None:
        """Close the change feed."""
        self.log.close()

    def _build_desired_points(
        self, item: PendingMessage, version: LoggedMessage | None, vector: Vector | None
    ) -> DesiredPoints:
        if version is None:
            return DesiredPoints(item)
        message = wire.decode(version.wire)
        usable = normalize_caller_vector(vector, self.dimension)
        texts = tuple(self.split(message.content)) if self.split and not usable else ()
        return DesiredPoints(item, message, version.sequence, self._is_new(item, version), texts, usable)

    def _is_new(self, item: PendingMessage, version: LoggedMessage) -> bool:
        """Return whether the index certainly has no points of the message.

        The result is true only if the message has one change, which stored the current version after this server
        started to fill the index.
        """
        return item.is_single and item.latest == version.sequence > self._stored_before
