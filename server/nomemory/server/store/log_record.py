"""The record of the identity and last known sequence of a data directory's log (`log.json`)."""

from __future__ import annotations

from pathlib import Path

import orjson

from nomemory.server.runtime.secure_files import write_atomically
from nomemory.server.store.position import Checkpoint, LogPosition


def write_record(path: Path, log: LogPosition) -> None:
    """Write the record atomically.

    Raises:
        OSError: the file cannot be written.
    """
    write_atomically(path, orjson.dumps({"log": log.identity.name, "sequence": log.sequence}))


def read_record(path: Path) -> Checkpoint | None:
    """Return the record; None if it is missing or malformed."""
    try:
        record = orjson.loads(path.read_bytes())
        return Checkpoint(str(record["log"]), int(record["sequence"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
