"""Compare the message versions in the lexical index with those in the message log."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import NamedTuple

import tantivy

from nomemory.server.search.lexical.tantivy.schema import open_index, read_checkpoint

_STORED = "SELECT seq FROM messages INDEXED BY messages_by_seq WHERE seq <= ?"
_REMOVED_SINCE = "SELECT removed_seq FROM removals WHERE seq > ?"


class LexicalDifferences(NamedTuple):
    """The differences between the index and the message log, up to the sequence number that the index has applied.

    Attributes:
        applied_sequence: the sequence number up to which the index has applied all changes.
        missing_versions: versions in the message log that are not in the index.
        orphan_versions: versions in the index that are not in the message log.
    """

    applied_sequence: int
    missing_versions: frozenset[int]
    orphan_versions: frozenset[int]


def compare_with_log(directory: Path, log: sqlite3.Connection) -> LexicalDifferences:
    """Compare all message versions up to the checkpoint of the index.

    A server may use the index and the message log during the comparison.

    Raises:
        IndexUnusableError: the index cannot be read.
        sqlite3.Error: the message log cannot be read.
    """
    index = open_index(directory)
    applied, indexed = read_checkpoint(index), _read_indexed_sequences(index)
    log.execute("BEGIN")
    stored = {sequence for (sequence,) in log.execute(_STORED, (applied,))}
    removed_since = {sequence for (sequence,) in log.execute(_REMOVED_SINCE, (applied,))}
    log.execute("COMMIT")
    return LexicalDifferences(
        applied,
        frozenset(stored - indexed),
        frozenset(sequence for sequence in indexed - stored - removed_since if sequence),
    )


def _read_indexed_sequences(index: tantivy.Index) -> set[int]:
    searcher = index.searcher()
    if not searcher.num_docs:
        return set()
    hits = searcher.search(tantivy.Query.all_query(), limit=searcher.num_docs, count=False).hits
    sequences = searcher.fast_field_values("seq", [address for _, address in hits])
    return {int(sequence) for sequence in sequences if sequence is not None}
