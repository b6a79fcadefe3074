"""The thread that applies the log's changes to the lexical index."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

from nomemory.server import wire
from nomemory.server.indexing.lexical.messages import FollowLog
from nomemory.server.search.lexical.tantivy.panics import ordinary_panics
from nomemory.server.search.lexical.tantivy.segment_erasure import SegmentErasure
from nomemory.server.search.lexical.tantivy.writer import TantivyLexicalWriter
from nomemory.server.store.change_feed import Change, ChangeFeed

_POLL_S = 0.5
"""Longest time, in seconds, that a change waits without a signal."""

_PAUSE_MAX_S = 0.2
"""Longest pause between two commits, in seconds. Each commit is a view that every reader has to open."""

_READ_MAX = 50
"""Number of changes read from the log at once, which bounds the memory that they take."""

_IGNORED_DELETIONS = (1, 0, 0)
"""Number of deletions in a segment that each round of erasing ignores. The first is likely a checkpoint's. A merge that
was under way in one round is seen in the next."""

_COLLECTIONS_MAX = 50
"""Number of attempts to delete files that belong to no segment: those of a merge under way go when it ends."""


class LexicalIndexer:
    """Follows the log's feed: applies what has queued up, commits it with how far it got, and waits for more.

    `run` blocks the thread it is called on until `stop`; the other members are safe to use from any thread. After an
    exception `run` may be called again: it opens the index anew and goes on after its last commit.

    Args:
        work: what to follow, and in which pieces.
        wake: set by whoever writes to the log.
        committed: called by `run` with what `applied` has become.
        wiped: called by `run` when what `erase_deleted` asked for is done.
    """

    def __init__(
        self,
        work: FollowLog,
        wake: threading.Event,
        committed: Callable[[int], None] = lambda _applied: None,
        wiped: Callable[[], None] = lambda: None,
    ) -> None:
        self._work = work
        self._wake = wake
        self._committed = committed
        self._wiped = wiped
        self._wipe = threading.Event()
        self._stopping = threading.Event()
        self._applied = 0

    @property
    def applied(self) -> int:
        """The sequence up to which everything is committed. 0 until `run` has opened the index."""
        return self._applied

    def run(self) -> None:
        """Follow the log until `stop`. Raises whatever the log or the engine raises, as an ordinary exception."""
        with (
            ordinary_panics(),
            closing(self._work.open_feed()) as feed,
            TantivyLexicalWriter(self._work.directory, self._work.heap_bytes, feed.position().identity.name) as writer,
        ):
            self._note(writer.applied)
            wiping = self._wiping(writer, feed)
            while not self._stopping.is_set():
                self._wake.clear()
                began_at = time.monotonic()
                has_more = self._catch_up(writer, feed)
                if next(wiping):
                    self._pause(time.monotonic() - began_at)
                elif not has_more:
                    self._wake.wait(_POLL_S)
                elif feed.sequence() - writer.applied < self._work.batch_max:
                    self._pause(time.monotonic() - began_at)

    def wake(self) -> None:
        """Have the log's changes read now."""
        self._wake.set()

    def erase_deleted(self) -> None:
        """Have everything taken out of the index's files that was removed and applied by now."""
        self._wipe.set()
        self._wake.set()

    def stop(self) -> None:
        """End `run` after the change in its hands, with a commit. It cannot be started again."""
        self._stopping.set()
        self._wake.set()

    def _pause(self, took_s: float) -> None:
        """Let as much time pass as the last commit took, so that under steady writes commits are few and larger."""
        self._stopping.wait(min(took_s, _PAUSE_MAX_S))

    def _note(self, applied: int) -> None:
        self._applied = applied
        self._committed(applied)

    def _catch_up(self, writer: TantivyLexicalWriter, feed: ChangeFeed) -> bool:
        """Apply what has queued up, in one commit; return False if there was nothing."""
        reached = first = writer.applied
        size = 0
        for change in self._queued(feed, first):
            _apply(change, writer)
            reached = change.sequence
            size += len(change.stored.wire) if change.stored else 0
            if size >= self._work.batch_bytes or self._stopping.is_set():
                break
        if reached > first:
            writer.commit(reached)
            self._note(reached)
        return reached > first

    def _wiping(self, writer: TantivyLexicalWriter, feed: ChangeFeed) -> Iterator[bool]:
        """Do a piece of the wiping with each step, if it is asked for; give whether there was any."""
        while True:
            if self._wipe.is_set():
                self._wipe.clear()
                yield from self._wiped_pieces(writer, feed)
                self._wiped()
            yield False

    def _wiped_pieces(self, writer: TantivyLexicalWriter, feed: ChangeFeed) -> Iterator[bool]:
        """Move what lives out of segments with removed versions. What is removed meanwhile is for the next time."""
        erasure = SegmentErasure(self._work.directory)
        for ignored in _IGNORED_DELETIONS:
            if erasure.is_clean():
                break
            for sequences in erasure.to_move(writer.applied, self._work.wipe_max, ignored):
                _move(sequences, writer, feed)
                yield True
            writer.commit(writer.applied)
            yield True
        for _ in range(_COLLECTIONS_MAX):
            writer.collect_files()
            if not erasure.has_stray_files():
                break
            yield True

    def _queued(self, feed: ChangeFeed, after: int) -> Iterator[Change]:
        """Read up to a commit's worth of changes, a few at a time."""
        left = self._work.batch_max
        while left and (changes := feed.changes(after, min(left, _READ_MAX))):
            yield from changes
            left -= len(changes)
            after = changes[-1].sequence


def _move(sequences: Sequence[int], writer: TantivyLexicalWriter, feed: ChangeFeed) -> None:
    """Write versions anew, in one commit with their deletion where they were."""
    stored = feed.by_sequences(sequences)
    for sequence in sequences:
        writer.remove(sequence)
        if sequence in stored:
            writer.add(sequence, wire.decode(stored[sequence].wire))
    writer.commit(writer.applied)


def _apply(change: Change, writer: TantivyLexicalWriter) -> None:
    if change.stored is not None:
        writer.add(change.stored.sequence, wire.decode(change.stored.wire))
    if change.removed_sequence is not None:
        writer.remove(change.removed_sequence)
