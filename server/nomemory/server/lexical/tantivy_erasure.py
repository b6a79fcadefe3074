"""Takes removed versions out of the index's files.

The engine only marks a document as deleted: its words stay in the segment until a merge, which may never come. Here
what lives in such a segment is moved out of it, by being added anew in the commit that deletes it there. A segment in
which nothing lives is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import orjson
import tantivy

from nomemory.server.lexical.tantivy_schema import CHECKPOINT, open_index, reload_index

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
