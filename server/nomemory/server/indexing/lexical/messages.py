"""What the lexical indexer's process can be asked, and how it can fail."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from nomemory.server.search.lexical.protocol import IndexUnusableError
from nomemory.server.search.lexical.tantivy.panics import EnginePanicError
from nomemory.server.store.change_feed import ChangeFeed


@dataclass(frozen=True, slots=True)
class FollowLog:
    """Follow the log. The first call; it ends when that fails. It may hold a password, which is why it is a call.

    After each commit the other end is told the sequence up to which everything is committed.

    Attributes:
        open_feed: opens the log's feed for the calling thread.
        directory: where the index lives.
        heap_bytes: memory of the index's writer.
        batch_max: most changes in one commit.
        batch_bytes: size of messages that is enough for one commit.
        wipe_max: most messages that are moved in one commit while removed ones are wiped out.
    """

    open_feed: Callable[[], ChangeFeed]
    directory: Path
    heap_bytes: int
    batch_max: int
    batch_bytes: int
    wipe_max: int


@dataclass(frozen=True, slots=True)
class ReadLog:
    """Read the log's changes now. No answer."""


@dataclass(frozen=True, slots=True)
class EraseDeleted:
    """Take everything out of the index's files that was removed and committed by now. Answer: None, when it is done."""


EXPECTED_FAILURES: Final = (IndexUnusableError, EnginePanicError, OSError, ValueError, sqlite3.Error)
"""What the log or the engine raises. Any other error ends the process."""

FAILURES_BY_NAME: Final[Mapping[str, type[Exception]]] = MappingProxyType(
    {kind.__name__: kind for kind in EXPECTED_FAILURES}
)
"""An error crosses the pipe as the name of its kind: its own words may quote a message."""


def failure_name(error: BaseException) -> str:
    """Return the name under which one of the expected failures crosses the pipe."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind in EXPECTED_FAILURES)
