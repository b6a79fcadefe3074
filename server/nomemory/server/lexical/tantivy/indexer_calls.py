"""What the lexical indexer's process can be asked, and how it can fail."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nomemory.server.lexical.protocol import IndexUnusableError
from nomemory.server.lexical.tantivy.schema import EnginePanicError
from nomemory.server.log.feed import ChangeFeed


@dataclass(frozen=True, slots=True)
class Follow:
    """Begin to follow the log. The first call, and no answer. It may hold a password, which is why it is a call.

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
class AwaitCommit:
    """Wait until the index has committed more. Answer: the sequence up to which everything is committed.

    Attributes:
        known: the latest answer; None if there is none from this process.
    """

    known: int | None


@dataclass(frozen=True, slots=True)
class WipeRemoved:
    """Take everything out of the index's files that was removed and committed by now. Answer: None, when it is done."""


IndexerCall = Follow | ReadLog | AwaitCommit | WipeRemoved

EXPECTED_FAILURES: Final = (IndexUnusableError, EnginePanicError, OSError, ValueError, sqlite3.Error)
"""What the log or the engine raises. Any other error ends the process."""
