"""Apply the changes of the message log to the lexical index."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

from nomemory.server import wire
from nomemory.server.indexing.lexical.messages import FollowLog
from nomemory.server.search.lexical.tantivy.panics import translate_panics
from nomemory.server.search.lexical.tantivy.segment_erasure import SegmentErasure
from nomemory.server.search.lexical.tantivy.writer import TantivyLexicalWriter
from nomemory.server.store.change_feed import Change, ChangeFeed

_POLL_S = 0.5
"""Polling interval in seconds, in case a notification is missed."""

_PAUSE_MAX_S = 0.2
"""Maximum pause between two commits in seconds. After each commit, all readers have to reload the index."""

_READ_MAX = 50
"""Number of changes to read from the message log at once, to limit the memory use."""

_IGNORED_DELETIONS = (1, 0, 0)
"""Number of deletions in a segment that each round of an erasure ignores. In the first round, a single deletion in a
segment is probably an old checkpoint document. If a merge was running during one round, the next round processes its
segment."""

_COLLECTIONS_MAX = 50
"""Maximum number of attempts to delete unreferenced files. Files of a merge can be deleted only after the merge."""


class LexicalIndexer:
    """Follows the change feed of the message log and commits the changes to the lexical index in batches.

    `run` blocks the calling thread until `stop` is called; all other members are thread-safe. After an exception, `run`
    can be called again, and resumes after the last commit.

    Args:
        wake: the event that is set when the message log has changed.
        on_commit: called by `run` with the new checkpoint after each commit.
        on_erased: called by `run` when an erasure that `erase_deleted` requested is complete.
    """

    def __init__(
        self,
        work: FollowLog,
        wake: threading.Event,
        on_commit: Callable[[int], None] = lambda _applied: None,
        on_erased: Callable[[], None] = lambda: None,
    ) -> None:
        self._work = work
        self._wake = wake
        self._on_commit = on_commit
        self._on_erased = on_erased
        self._erasure_requested = threading.Event()
        self._stopping = threading.Event()
        self._applied = 0

    @property
    def applied_sequence(self) -> int:
        """The sequence number up to which all changes are committed; 0 until `run` has opened the index."""
        return self._applied

    def run(self) -> None:
        """Follow the message log until `stop` is called. Panics of the engine are raised as ordinary exceptions."""
        with (
            translate_panics(),
            closing(self._work.open_feed()) as feed,
            TantivyLexicalWriter(
                self._work.directory, self._work.heap_bytes, feed.read_position().identity.name
            ) as writer,
        ):
            self._record_applied(writer.applied_sequence)
            erasure = self._run_erasure_steps(writer, feed)
            while not self._stopping.is_set():
                self._wake.clear()
                began_at = time.monotonic()
                has_more = self._catch_up(writer, feed)
                if next(erasure):
                    self._pause(time.monotonic() - began_at)
                elif not has_more:
                    self._wake.wait(_POLL_S)
                elif feed.read_sequence() - writer.applied_sequence < self._work.batch_max:
                    self._pause(time.monotonic() - began_at)

    def wake(self) -> None:
        """Read new changes of the message log without waiting for the next poll."""
        self._wake.set()

    def erase_deleted(self) -> None:
        """Request the erasure of deleted messages from the index files."""
        self._erasure_requested.set()
        self._wake.set()

    def stop(self) -> None:
        """Commit the current batch and end `run`. A stopped indexer cannot be restarted."""
        self._stopping.set()
        self._wake.set()

    def _pause(self, took_s: float) -> None:
        """Pause for as long as the last commit took, so that a steady load causes fewer and larger commits."""
        self._stopping.wait(min(took_s, _PAUSE_MAX_S))

    def _record_applied(self, applied: int) -> None:
        self._applied = applied
        self._on_commit(applied)

    def _catch_up(self, writer: TantivyLexicalWriter, feed: ChangeFeed) -> bool:
        """Apply the next batch of changes in one commit. Return False if the message log has no new changes."""
        last = first = writer.applied_sequence
        size = 0
        for change in self._read_changes(feed, first):
            _apply_change(change, writer)
            last = change.sequence
            size += len(change.stored.wire) if change.stored else 0
            if size >= self._work.batch_bytes or self._stopping.is_set():
                break
        if last > first:
            writer.commit(last)
            self._record_applied(last)
        return last > first

    def _run_erasure_steps(self, writer: TantivyLexicalWriter, feed: ChangeFeed) -> Iterator[bool]:
        """Run one batch of the requested erasure per iteration; yield False if no erasure is requested."""
        while True:
            if self._erasure_requested.is_set():
                self._erasure_requested.clear()
                yield from self._erase_in_batches(writer, feed)
                self._on_erased()
            yield False

    def _erase_in_batches(self, writer: TantivyLexicalWriter, feed: ChangeFeed) -> Iterator[bool]:
        """Rewrite index segments that contain deleted versions, one batch of current versions per iteration."""
        erasure = SegmentErasure(self._work.directory)
        for ignored in _IGNORED_DELETIONS:
            if erasure.has_no_deletions():
                break
            for sequences in erasure.find_rewrite_batches(writer.applied_sequence, self._work.wipe_max, ignored):
                _move_versions(sequences, writer, feed)
                yield True
            writer.commit(writer.applied_sequence)
            yield True
        for _ in range(_COLLECTIONS_MAX):
            writer.delete_unused_files()
            if not erasure.has_stray_files():
                break
            yield True

    def _read_changes(self, feed: ChangeFeed, after: int) -> Iterator[Change]:
        """Yield the changes of the next commit; read them in small batches to limit the memory use."""
        left = self._work.batch_max
        while left and (changes := feed.read_changes(after, min(left, _READ_MAX))):
            yield from changes
            left -= len(changes)
            after = changes[-1].sequence


def _move_versions(sequences: Sequence[int], writer: TantivyLexicalWriter, feed: ChangeFeed) -> None:
    """Move message versions to a new segment in one commit."""
    stored = feed.read_versions(sequences)
    for sequence in sequences:
        writer.remove_version(sequence)
        if sequence in stored:
            writer.add_version(sequence, wire.decode(stored[sequence].wire))
    writer.commit(writer.applied_sequence)


def _apply_change(change: Change, writer: TantivyLexicalWriter) -> None:
    if change.stored is not None:
        writer.add_version(change.stored.sequence, wire.decode(change.stored.wire))
    if change.removed_sequence is not None:
        writer.remove_version(change.removed_sequence)
