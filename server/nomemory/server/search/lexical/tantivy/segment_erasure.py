"""Find the segments of the index that contain deleted message versions.

To erase deleted versions from the files, the indexer rewrites the live versions of these segments.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import orjson
import tantivy

from nomemory.server.search.lexical.tantivy.schema import CHECKPOINT, open_index, reload_index

_SEQUENCES_MAX: Final = 50_000
"""Sequence numbers per search for live versions."""


_NON_SEGMENT_FILES: Final = frozenset({"meta.json", ".managed.json"})


class Segment(NamedTuple):
    """A segment of the index: its name and its number of deleted documents."""

    name: str
    deleted_documents: int


class SegmentErasure:
    """Finds the segments that contain deleted versions.

    The class must be used from the thread of the index writer only.

    Args:
        directory: the directory of the index.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._index = open_index(directory)

    def has_no_deletions(self) -> bool:
        """Return whether no segment contains a deleted version. Deleted checkpoint documents do not count."""
        segments = self._reload()
        searcher = self._index.searcher()
        checkpoints = searcher.doc_freq("kind", CHECKPOINT)  # includes deleted ones
        live = len(searcher.search(self._build_checkpoint_query(), limit=1).hits)
        return sum(segment.deleted_documents for segment in segments) == checkpoints - live

    def has_stray_files(self) -> bool:
        """Return whether there are files of segments that the index no longer uses, for example after a merge."""
        names = {segment.name for segment in self._list_segments()}
        files = (file.name for file in self._directory.iterdir() if file.name not in _NON_SEGMENT_FILES)
        return any(name.partition(".")[0] not in names for name in files if not name.startswith(".tantivy"))

    def find_rewrite_batches(self, until: int, batch_max: int, ignored_deletions: int) -> Iterator[list[int]]:
        """Yield batches of the sequence numbers of live versions, up to `until`, in segments with deletions.

        Segments with at most `ignored_deletions` deletions are skipped.
        """
        dirty = {segment.name for segment in self._reload() if segment.deleted_documents > ignored_deletions}
        for after in range(0, until if dirty else 0, _SEQUENCES_MAX):
            sequences = self._find_live_versions(dirty, after + 1, min(after + _SEQUENCES_MAX, until))
            yield from (sequences[at : at + batch_max] for at in range(0, len(sequences), batch_max))

    def _find_live_versions(self, dirty: set[str], first: int, last: int) -> list[int]:
        segments = self._reload()
        searcher = self._index.searcher()
        between = tantivy.Query.range_query(self._index.schema, "seq", tantivy.FieldType.Integer, first, last)
        hits = searcher.search(between, limit=_SEQUENCES_MAX, count=False).hits
        addresses = [address for _, address in hits if segments[address.segment_ord].name in dirty]
        return sorted(int(sequence or 0) for sequence in searcher.fast_field_values("seq", addresses))

    def _reload(self) -> list[Segment]:
        """Reload the latest commit, and return its segments in the order of their ordinals."""
        while True:
            segments = self._list_segments()
            reload_index(self._index)
            if segments == self._list_segments():
                return segments

    def _list_segments(self) -> list[Segment]:
        meta = orjson.loads((self._directory / "meta.json").read_bytes())
        return [
            Segment(segment["segment_id"].replace("-", ""), (segment["deletes"] or {}).get("num_deleted_docs", 0))
            for segment in meta["segments"]
        ]

    def _build_checkpoint_query(self) -> tantivy.Query:
        return tantivy.Query.term_query(self._index.schema, "kind", CHECKPOINT)
