"""Which directories hold the shards of an embedded index, and how others take their place in one step.

The first generation is one shard, `shard`. A later one has a directory, such as `shards-2`, with a directory for each
shard and `layout.json`, which is written last: a generation without it is not complete, and is not used.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

import orjson

from nomemory.server.faults import index_unavailable
from nomemory.server.private_files import put, sync
from nomemory.server.structured_logs import get_logger

_FORMAT: Final = 1
"""Shards are numbered from 0, and a user's is `shard_of`."""
_LAYOUT: Final = "layout.json"
SHARDS_MAX: Final = 1024
"""Most shards of an index: each is a process."""

_log = get_logger("vectors")


def shard_of(user_id: str, shards: int) -> int:
    """Return the number of the shard that has a user's points."""
    return int.from_bytes(blake2b(user_id.encode(), digest_size=8).digest()) % shards


@dataclass(frozen=True, slots=True)
class _Generation:
    """Shards that belong together. The first has the number 0."""

    number: int
    shards: list[Path]


class ShardLayout:
    """The generations of an index. Which of them is in use is read once; later it is known.

    Args:
        first: the directory of the shard of the first generation. Later generations are beside it.

    Raises:
        Fault: INDEX_UNAVAILABLE, the system does not let it be read.
    """

    def __init__(self, first: Path) -> None:
        self._first = first
        try:
            self._used = max(self._complete(), key=lambda found: found.number, default=_Generation(0, [first]))
        except OSError as error:
            message = f"the layout of the vector index cannot be read: {error.strerror}"
            raise index_unavailable(message, type(error).__name__) from error

    def used(self) -> list[Path]:
        """Return the directories of the shards, by number. They need not exist yet."""
        return list(self._used.shards)

    def begin(self, shards: int) -> list[Path]:
        """Return the directories of a next generation, which has nothing yet.

        Raises:
            ValueError: these are too many, or none.
        """
        if not 0 < shards <= SHARDS_MAX:
            message = f"an index has 1 to {SHARDS_MAX} shards, not {shards}"
            raise ValueError(message)
        directory = self._next()
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(mode=0o700, parents=True)
        return _shards(directory, shards)

    def complete(self, shards: int) -> None:
        """Use the next generation from now on, also after a power cut. Everything in it has been brought to disk."""
        directory = self._next()
        sync(directory.parent)
        put(directory / _LAYOUT, orjson.dumps({"format": _FORMAT, "shards": shards}))
        self._used = _Generation(self._used.number + 1, _shards(directory, shards))

    def tidy(self) -> None:
        """Delete the generations that are not in use. Nobody has their files open, or wants to."""
        for number, directory in self._generations():
            if number != self._used.number:
                shutil.rmtree(directory, ignore_errors=True)
        if self._used.number:
            shutil.rmtree(self._first, ignore_errors=True)
            for file in self._first.parent.glob(f"{self._first.name}.*"):
                shutil.rmtree(file, ignore_errors=True) if file.is_dir() else file.unlink(missing_ok=True)

    def _next(self) -> Path:
        return self._first.with_name(f"{self._first.name}s-{self._used.number + 1}")

    def _complete(self) -> list[_Generation]:
        found = [(number, directory, _count(directory / _LAYOUT)) for number, directory in self._generations()]
        return [_Generation(number, _shards(directory, shards)) for number, directory, shards in found if shards]

    def _generations(self) -> list[tuple[int, Path]]:
        """Return what there is, complete or not. A glob would be silent about what it cannot read."""
        named = re.compile(rf"{re.escape(self._first.name)}s-([1-9][0-9]*)")
        found = [(named.fullmatch(path.name), path) for path in _entries(self._first.parent)]
        return [(int(match[1]), path) for match, path in found if match]


def _shards(directory: Path, shards: int) -> list[Path]:
    return [directory / str(number) for number in range(shards)]


def _entries(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except FileNotFoundError:
        return []


def _count(layout: Path) -> int:
    """Return how many shards a generation has; 0 if it cannot be used. Only what was read tells that.

    Raises:
        OSError: it is there, and cannot be read now.
    """
    try:
        read = orjson.loads(layout.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except ValueError:
        read = None
    if isinstance(read, dict) and read.get("format") == _FORMAT:
        shards = read.get("shards")
        if isinstance(shards, int) and 0 < shards <= SHARDS_MAX:
            return shards
    _log.error("the layout of the vector index cannot be read; the index is built anew", file=layout.name)
    return 0
