"""The writing side of the lexical index: it adds versions, and takes removed ones out of the files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import orjson
import tantivy

from nomemory.server.lexical.form import form_of
from nomemory.server.lexical.tantivy.query import worth_of
from nomemory.server.lexical.tantivy.schema import (
    CHECKPOINT,
    METADATA,
    WORTH,
    checkpoint_document,
    discard_former,
    open_index,
    open_or_rebuild,
    read_checkpoint,
    reload_index,
)
from nomemory.server.message import Message
from nomemory.server.metadata_mark import marks_of
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
        form = form_of(message.content, len(terms))
        fields = {
            WORTH: worth_of(form),
            "user": message.user_id,
            "conversation": message.conversation_id,
            METADATA: list(marks_of(message.metadata.items())),
            "chars": " ".join(tokens),
            "terms": " ".join(terms),
            "speaker": _speaker(message.name),
            "form": form,
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
