"""The record of the log: which log a data directory has, and how far it was when a server last looked.

It stands beside the log, so that a log that is gone, or older than it was, is noticed.
"""

from __future__ import annotations

import os
from pathlib import Path

import orjson

from nomemory.server.log.identity import Checkpoint, LogPosition


def write_record(path: Path, log: LogPosition) -> None:
    """Write the record in one step, so that a crash leaves the whole of this or the one before.

    Raises:
        OSError: it cannot be written.
    """
    new = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(orjson.dumps({"log": log.identity.name, "sequence": log.sequence}))
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)


def read_record(path: Path) -> Checkpoint | None:
    """Return what was recorded; None if there is no record, or nothing that makes sense."""
    try:
        written = orjson.loads(path.read_bytes())
        return Checkpoint(str(written["log"]), int(written["sequence"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
