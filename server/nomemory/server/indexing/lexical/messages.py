"""Messages between the server and the process of the lexical indexer."""

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
    """Request to follow the message log until an error occurs; the first request to the indexer process.

    The parameters are sent as a message, not as command line arguments, because they may contain a password. After each
    commit, the process reports the sequence number up to which all changes are committed.

    Attributes:
        open_feed: opens a change feed in the calling thread.
        heap_bytes: memory budget of the index writer.
        batch_max: maximum number of changes in one commit.
        batch_bytes: maximum size of the messages in one commit.
        wipe_max: maximum number of messages to move in one commit during an erasure.
    """

    open_feed: Callable[[], ChangeFeed]
    directory: Path
    heap_bytes: int
    batch_max: int
    batch_bytes: int
    wipe_max: int


@dataclass(frozen=True, slots=True)
class ReadLog:
    """Request to read new changes of the message log without waiting for the next poll; the process does not reply."""


@dataclass(frozen=True, slots=True)
class EraseDeleted:
    """Request to erase deleted messages from the index files; the process replies with None afterwards."""


EXPECTED_FAILURES: Final = (IndexUnusableError, EnginePanicError, OSError, ValueError, sqlite3.Error)
"""Errors of the message log and the engine, which are reported. Any other error ends the process."""

FAILURES_BY_NAME: Final[Mapping[str, type[Exception]]] = MappingProxyType(
    {kind.__name__: kind for kind in EXPECTED_FAILURES}
)
"""Errors by class name. Only the name is sent, because the text of an error may quote a message."""


def get_failure_name(error: BaseException) -> str:
    """Return the class name that identifies an expected error in a reply."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind in EXPECTED_FAILURES)
