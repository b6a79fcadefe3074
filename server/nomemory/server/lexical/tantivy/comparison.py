"""Compares the index of words with the log, version by version."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import NamedTuple

import tantivy

from nomemory.server.lexical.tantivy.schema import open_index, read_checkpoint

_STORED = "SELECT seq FROM messages INDEXED BY messages_by_seq WHERE seq <= ?"
_GONE_SINCE = "SELECT removed_seq FROM removals WHERE seq > ?"


class Comparison(NamedTuple):
    """How far the index is, and what it lacks, and has too much, up to there."""

    applied: int
    missing: frozenset[int]
    orphans: frozenset[int]


def compare_words(directory: Path, log: sqlite3.Connection) -> Comparison:
    """Compare all versions up to the index's checkpoint. A server may be running.

    Raises:
        IndexUnusableError: the index cannot be read.
        sqlite3.Error: the log cannot be read.
    """
    index = open_index(directory)
    applied, indexed = read_checkpoint(index), _sequences(index)
    log.execute("BEGIN")
    stored = {sequence for (sequence,) in log.execute(_STORED, (applied,))}
    gone_since = {sequence for (sequence,) in log.execute(_GONE_SINCE, (applied,))}
    log.execute("COMMIT")
    return Comparison(
        applied, frozenset(stored - indexed), frozenset(each for each in indexed - stored - gone_since if each)
    )


def _sequences(index: tantivy.Index) -> set[int]:
    searcher = index.searcher()
    if not searcher.num_docs:
        return set()
    found = searcher.search(tantivy.Query.all_query(), limit=searcher.num_docs, count=False).hits
    return {int(each) for each in searcher.fast_field_values("seq", [place for _, place in found]) if each is not None}
