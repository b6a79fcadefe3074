"""The record beside the log (`log.json`): which log a data directory has, and its last known sequence."""

from __future__ import annotations

from pathlib import Path

import orjson

from nomemory.server.runtime.secure_files import write_atomically
from nomemory.server.store.position import Checkpoint, LogPosition


def write_record(path: Path, log: LogPosition) -> None:
    """Write the record in one step, so that a crash leaves the whole of this or the one before.

    Raises:
        OSError: it cannot be written.
    """
    write_atomically(path, orjson.dumps({"log": log.identity.name, "sequence": log.sequence}))


def read_record(path: Path) -> Checkpoint | None:
    """Return what was recorded; None if there is no record, or nothing that makes sense."""
    try:
        written = orjson.loads(path.read_bytes())
        return Checkpoint(str(written["log"]), int(written["sequence"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
