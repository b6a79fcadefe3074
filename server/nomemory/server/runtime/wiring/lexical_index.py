"""Open the lexical index: in the PostgreSQL database, or with Tantivy and an indexer process."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from nomemory.server.indexing.lexical.messages import FollowLog
from nomemory.server.indexing.lexical.process import LexicalIndexerProcess
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.processes.watchdog import WatchPolicy
from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.log_store import LogStore
from nomemory.server.search.lexical.postgres.inline_progress import InlineLexicalProgress
from nomemory.server.search.lexical.protocol import LexicalIndex, LexicalProgress
from nomemory.server.search.lexical.tantivy.reader import open_lexical_index
from nomemory.server.store.damage import DamageRegistry

_COMMIT_BYTES: Final = 4_000_000
"""Size of uncommitted messages that triggers a commit of the index, in bytes."""

_COMMIT_CHANGES_MAX: Final = 4000
"""Maximum number of changes in one commit of the lexical index."""

_HEAP_BYTES: Final = 64_000_000
"""Memory of Tantivy's writer, in bytes."""


@dataclass(frozen=True, slots=True)
class LexicalComponents:
    """The components of an open lexical index.

    Attributes:
        index: the interface for searches.
        indexer: the process that indexes the message log; None if the writer of the message log updates the index.
    """

    index: LexicalIndex
    indexer: LexicalIndexerProcess | None

    @property
    def progress(self) -> LexicalProgress:
        """The indexing progress."""
        return self.indexer or InlineLexicalProgress()


def open_database_index(
    store: LogStore, damage_registry: DamageRegistry, stack: AsyncExitStack
) -> LexicalComponents | None:
    """Open the lexical index in the database of the message log, or return None if the database is SQLite."""
    index = store.open_lexical_index(damage_registry, stack)
    return None if index is None else LexicalComponents(index, None)


def open_tantivy_index(
    settings: Settings,
    directory: DataDirectory,
    store: LogStore,
    committed: asyncio.Event,
    policy: WatchPolicy,
    threads: ReadThreads,
    stack: AsyncExitStack,
) -> LexicalComponents:
    """Open the Tantivy index of a data directory, and start its indexer.

    The indexer reads the change feed of `store` when `committed` is set. Long searches run in `threads`.
    """
    index = open_lexical_index(directory.lexical_index, threads)
    stack.push_async_callback(index.close)
    work = FollowLog(
        store.make_feed_opener(),
        directory.lexical_index,
        heap_bytes=_HEAP_BYTES,
        batch_max=_COMMIT_CHANGES_MAX,
        batch_bytes=_COMMIT_BYTES,
        wipe_max=settings.erasure.batch_size,
    )
    return LexicalComponents(index, LexicalIndexerProcess(work, committed, policy))
