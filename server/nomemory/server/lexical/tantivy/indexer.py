"""The thread that applies the log's changes to the lexical index.

The writing side of the lexical index: it adds versions, and takes removed ones out of the files.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Self

import orjson
import tantivy

from nomemory.server import wire
from nomemory.server.lexical.message_class import message_class
from nomemory.server.lexical.tantivy.indexer_calls import Follow
from nomemory.server.lexical.tantivy.schema import (
    CHECKPOINT,
    MESSAGE_CLASS,
    METADATA,
    checkpoint_document,
    discard_former,
    open_index,
    open_or_rebuild,
    ordinary_panics,
    read_checkpoint,
    reload_index,
)
from nomemory.server.log.feed import Change, ChangeFeed
from nomemory.server.message import Message, marks_of
from nomemory.text.analysis import streams
from nomemory.text.names import name_terms


class TantivyLexicalWriter:
    """Applies changes and commits them together with how far it got. Belongs to one thread; one per directory.

    An index that cannot be read is discarded, and `applied` begins at 0 again. Those of former versions are, too.

    Args:
        directory: where the index lives; created if it is missing.
        heap_bytes: memory for what is not yet committed, at least 15 MB.
        log: the name of the log whose changes it takes (`LogIdentity.name`).

    Raises:
        ValueError: another writer has the directory open.
    """

    def __init__(self, directory: Path, heap_bytes: int, log: str = "") -> None:
        discard_former(directory)
        index = open_or_rebuild(directory)
        self._directory = directory
        self._log = log
        self._applied = read_checkpoint(index)
        self._schema = index.schema
        self._writer = index.writer(heap_bytes, num_threads=1)

    @property
    def applied(self) -> int:
        """The sequence up to which everything is committed."""
        return self._applied

    def add(self, sequence: int, message: Message) -> None:
        """Add a version of a message."""
        tokens, terms = streams(message.content)
        fields = {
            "user": message.user_id,
            "conversation": message.conversation_id,
            METADATA: list(marks_of(message.metadata.items())),
            "chars": " ".join(tokens),
            "terms": " ".join(terms),
            "speaker": _speaker(message.name),
            MESSAGE_CLASS: message_class(message.content, len(terms)),
            "role": int(message.role),
            "ts": message.ts_us,
            "seq": sequence,
        }
        self._writer.add_document(tantivy.Document.from_dict(fields, self._schema))

    def remove(self, sequence: int) -> None:
        """Remove a version of a message. One that is not there is nothing to do."""
        self._writer.delete_documents_by_term("seq", sequence)

    def commit(self, applied: int) -> None:
        """Make everything since the last commit durable, and with it that all is applied up to a sequence.

        Raises:
            IndexUnusableError: what was committed before cannot be read any more. The next writer begins anew.
        """
        open_index(self._directory)  # to commit onto damaged files would end the process: the engine aborts
        self._writer.delete_documents_by_term("kind", CHECKPOINT)
        self._writer.add_document(checkpoint_document(self._schema, applied, self._log))
        self._writer.commit()
        self._applied = applied

    def collect_files(self) -> None:
        """Delete the files that no commit needs any more."""
        self._writer.garbage_collect_files()

    def close(self) -> None:
        """Drop what is not committed, finish merges under way, and let go of the directory."""
        try:
            self._writer.rollback()
        finally:
            self._writer.wait_merging_threads()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


@lru_cache(maxsize=1024)
def _speaker(name: str) -> str:
    """Return the terms of a name; the same few speak again and again."""
    return " ".join(name_terms(name))


_WINDOW = 50_000
"""Sequences that are looked through at once."""


_OF_NO_SEGMENT = frozenset({"meta.json", ".managed.json"})


class Segment(NamedTuple):
    """A segment of the index: its name, and how many of its documents are marked as deleted."""

    name: str
    deleted: int


class SegmentErasure:
    """Looks for what has to be moved. Belongs to the thread of the index's writer.

    Args:
        directory: where the index lives.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._index = open_index(directory)

    def is_clean(self) -> bool:
        """Return whether no segment holds a removed version. Checkpoints that were deleted hold nothing of a user."""
        segments = self._view()
        searcher = self._index.searcher()
        checkpoints = searcher.doc_freq("kind", CHECKPOINT)  # deleted ones, too
        living = len(searcher.search(self._checkpoint(), limit=1).hits)
        return sum(segment.deleted for segment in segments) == checkpoints - living

    def has_stray_files(self) -> bool:
        """Return whether there are files of segments that the index has no more, such as those of a merge."""
        names = {segment.name for segment in self._segments()}
        files = (file.name for file in self._directory.iterdir() if file.name not in _OF_NO_SEGMENT)
        return any(name.partition(".")[0] not in names for name in files if not name.startswith(".tantivy"))

    def to_move(self, until: int, most: int, spared: int) -> Iterator[list[int]]:
        """Give the living versions up to a sequence that lie in segments with deletions, so many at a time.

        Segments with no more than `spared` deletions do not count.
        """
        dirty = {segment.name for segment in self._view() if segment.deleted > spared}
        for after in range(0, until if dirty else 0, _WINDOW):
            found = self._living(dirty, after + 1, min(after + _WINDOW, until))
            yield from (found[at : at + most] for at in range(0, len(found), most))

    def _living(self, dirty: set[str], first: int, last: int) -> list[int]:
        segments = self._view()
        searcher = self._index.searcher()
        between = tantivy.Query.range_query(self._index.schema, "seq", tantivy.FieldType.Integer, first, last)
        hits = searcher.search(between, limit=_WINDOW, count=False).hits
        addresses = [address for _, address in hits if segments[address.segment_ord].name in dirty]
        return sorted(int(sequence or 0) for sequence in searcher.fast_field_values("seq", addresses))

    def _view(self) -> list[Segment]:
        """Take the latest commit into view; return its segments, in the order of their numbers in it."""
        while True:
            segments = self._segments()
            reload_index(self._index)
            if segments == self._segments():
                return segments

    def _segments(self) -> list[Segment]:
        meta = orjson.loads((self._directory / "meta.json").read_bytes())
        return [
            Segment(each["segment_id"].replace("-", ""), (each["deletes"] or {}).get("num_deleted_docs", 0))
            for each in meta["segments"]
        ]

    def _checkpoint(self) -> tantivy.Query:
        return tantivy.Query.term_query(self._index.schema, "kind", CHECKPOINT)


_POLL_S = 0.5
"""Longest time, in seconds, that a change waits without a signal."""


_PAUSE_MAX_S = 0.2
"""Longest pause between two commits. Each commit is a view that every reader has to open."""


_READ_MAX = 50
"""Changes read from the log at once: bounds the memory that they take, and what a full batch leaves to read again."""


_SPARED = (1, 0, 0)
"""How many deletions a segment may have that is left alone, round by round: the first is likely a checkpoint's. A merge
that was under way in one round is seen in the next."""


_COLLECTED_MAX = 50
"""How often files that belong to no segment are looked for: those of a merge under way go when it ends."""


class LexicalIndexer:
    """Follows the log's feed: applies what has queued up, commits it with how far it got, and waits for more.

    `run` blocks the thread it is called on until `stop`; the other members are safe to use from any thread. After an
    exception `run` may be called again: it opens the index anew and goes on after its last commit.

    Args:
        work: what to follow, and in which pieces.
        wake: set by whoever writes to the log.
        committed: called by `run` with what `applied` has become.
        wiped: called by `run` when what `wipe_removed` asked for is done.
    """

    def __init__(
        self,
        work: Follow,
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

    def wipe_removed(self) -> None:
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
        for spared in _SPARED:
            if erasure.is_clean():
                break
            for sequences in erasure.to_move(writer.applied, self._work.wipe_max, spared):
                _move(sequences, writer, feed)
                yield True
            writer.commit(writer.applied)
            yield True
        for _ in range(_COLLECTED_MAX):
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
