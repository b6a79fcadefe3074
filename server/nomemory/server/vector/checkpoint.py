"""How far a collection of vectors has followed the log, and which log; a collection of another one is discarded."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from nomemory.server.log.position import Checkpoint, FeedPosition, LogPosition
from nomemory.server.vector.collection import Collection


def vector_checkpoint(backlog: Path) -> Checkpoint | None:
    """Read it from the file of a backlog; None if there is none that can be read."""
    known = _known(backlog)
    return None if known is None else known.checkpoint


def is_begun(backlog: Path) -> bool:
    """Return whether the index of a backlog has nothing but what this backlog knows of."""
    known = _known(backlog)
    return known is not None and known.is_begun


def is_filled(backlog: Path, log: LogPosition) -> bool:
    """Return whether the index of a backlog has all that the log has."""
    known = _known(backlog)
    return known is not None and not known.pending and known.checkpoint.sequence >= log.sequence


def discard_foreign_vectors(collection: Collection, log: LogPosition) -> bool:
    """Delete what is kept here of a collection that cannot go on with this log; return whether that was so.

    The points that a server has of it are deleted by the index.
    """
    known = vector_checkpoint(collection.backlog)
    if known is None or known.can_go_on(log):
        return False
    shutil.rmtree(collection.directory)
    return True


class _Known(NamedTuple):
    checkpoint: Checkpoint
    is_begun: bool
    pending: int


def _known(backlog: Path) -> _Known | None:
    if not backlog.exists():
        return None
    try:
        with closing(sqlite3.connect(f"{backlog.absolute().as_uri()}?mode=ro", uri=True)) as file:
            fed, pending = file.execute("SELECT fed, pending FROM feed").fetchone()
            has_names = file.execute("SELECT 1 FROM sqlite_master WHERE name='followed'").fetchone()
            followed = file.execute("SELECT log, is_begun FROM followed").fetchone() if has_names else None
    except sqlite3.Error:
        return None
    latest = FeedPosition.decoded(fed).latest
    log, is_begun = followed or ("", latest > 0)
    return _Known(Checkpoint(log, latest), bool(is_begun), int(pending))
