"""Segments of the index that hold deleted versions.

Writing their living versions anew removes the deleted ones from the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import orjson
import tantivy

from nomemory.server.search.lexical.tantivy.schema import CHECKPOINT, open_index, reload_index

_SEQUENCES_MAX: Final = 50_000
"""Number of sequences in one search for living versions."""


_OF_NO_SEGMENT: Final = frozenset({"meta.json", ".managed.json"})


class Segment(NamedTuple):
    """A segment of the index: its name, and how many of its documents are marked as deleted."""

    name: str
    deleted: int


class SegmentErasure:
    """Finds the segments that hold deleted versions. Belongs to the thread of the index's writer.

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

    def to_move(self, until: int, batch_max: int, ignored_deletions: int) -> Iterator[list[int]]:
        """Yield the living versions up to a sequence that are in segments with deletions, in batches.

        Segments with at most `ignored_deletions` deletions do not count.
        """
        dirty = {segment.name for segment in self._view() if segment.deleted > ignored_deletions}
        for after in range(0, until if dirty else 0, _SEQUENCES_MAX):
            sequences = self._living(dirty, after + 1, min(after + _SEQUENCES_MAX, until))
            yield from (sequences[at : at + batch_max] for at in range(0, len(sequences), batch_max))

    def _living(self, dirty: set[str], first: int, last: int) -> list[int]:
        segments = self._view()
        searcher = self._index.searcher()
        between = tantivy.Query.range_query(self._index.schema, "seq", tantivy.FieldType.Integer, first, last)
        hits = searcher.search(between, limit=_SEQUENCES_MAX, count=False).hits
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
