"""The record of the log: which log a data directory has, and how far it was when a server last looked.

It stands beside the log, so that a log that is gone, or older than it was, is noticed.
"""

from __future__ import annotations

from pathlib import Path

import orjson

from nomemory.server.log.identity import Checkpoint, LogPosition
from nomemory.server.private_files import put


def write_record(path: Path, log: LogPosition) -> None:
    """Write the record in one step, so that a crash leaves the whole of this or the one before.

    Raises:
        OSError: it cannot be written.
    """
    put(path, orjson.dumps({"log": log.identity.name, "sequence": log.sequence}))


def read_record(path: Path) -> Checkpoint | None:
    """Return what was recorded; None if there is no record, or nothing that makes sense."""
    try:
        written = orjson.loads(path.read_bytes())
        return Checkpoint(str(written["log"]), int(written["sequence"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
