"""Read the state of a closed collection from its backlog: message log, checkpoint and pending messages."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from nomemory.server.search.semantic.collection import Collection
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.position import Checkpoint, LogPosition


class _CollectionState(NamedTuple):
    checkpoint: Checkpoint
    has_points: bool
    pending: int


def read_vector_checkpoint(backlog: Path) -> Checkpoint | None:
    """Return the checkpoint in a backlog file; None if the file is missing or unreadable."""
    state = _read_state(backlog)
    return None if state is None else state.checkpoint


def has_stored_points(backlog: Path) -> bool:
    """Return whether any points were ever stored in the collection of a backlog."""
    state = _read_state(backlog)
    return state is not None and state.has_points


def is_collection_complete(backlog: Path, log: LogPosition) -> bool:
    """Return whether the collection of a backlog contains all messages of the message log."""
    state = _read_state(backlog)
    return state is not None and not state.pending and state.checkpoint.sequence >= log.sequence


def discard_foreign_vectors(collection: Collection, log: LogPosition) -> bool:
    """Delete the local files of a collection that cannot follow this message log.

    Return whether the files were deleted.

    The index deletes the points on a Qdrant server.
    """
    checkpoint = read_vector_checkpoint(collection.backlog)
    if checkpoint is None or checkpoint.can_resume(log):
        return False
    shutil.rmtree(collection.directory)
    return True


def _read_state(backlog: Path) -> _CollectionState | None:
    if not backlog.exists():
        return None
    try:
        with closing(sqlite3.connect(f"{backlog.absolute().as_uri()}?mode=ro", uri=True)) as file:
            fed, pending = file.execute("SELECT fed, pending FROM feed").fetchone()
            log, is_begun = file.execute("SELECT log, is_begun FROM followed").fetchone() or ("", False)
    except sqlite3.Error:
        return None
    return _CollectionState(Checkpoint(log, FeedPosition.decode(fed).latest), bool(is_begun), int(pending))
