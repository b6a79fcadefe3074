"""The file `log.json`, which records the identity and the last known sequence number of a message log."""

from __future__ import annotations

from pathlib import Path

import orjson

from nomemory.server.runtime.secure_files import write_atomically
from nomemory.server.store.position import Checkpoint, LogPosition


def write_position_file(path: Path, log: LogPosition) -> None:
    """Write the position of the message log to `log.json` atomically.

    Raises:
        OSError: the file cannot be written.
    """
    write_atomically(path, orjson.dumps({"log": log.identity.name, "sequence": log.sequence}))


def read_position_file(path: Path) -> Checkpoint | None:
    """Read the checkpoint in `log.json`; return None if the file is missing or malformed."""
    try:
        record = orjson.loads(path.read_bytes())
        return Checkpoint(str(record["log"]), int(record["sequence"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
