"""Opens the lexical index: tables of the log's database, or a Tantivy index that a process of its own fills."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from nomemory.server.indexing.lexical.messages import Follow
from nomemory.server.indexing.lexical.process import LexicalIndexerProcess
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.processes.watchdog import WatchPolicy
from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.log_store import LogStore
from nomemory.server.search.lexical.postgres.inline_progress import InlineLexicalProgress
from nomemory.server.search.lexical.protocol import LexicalIndex, LexicalProgress
from nomemory.server.search.lexical.tantivy.reader import open_or_discard
from nomemory.server.store.damage import LogDamage

_COMMIT_BYTES: Final = 4_000_000
"""Size of messages at which a commit is made, in bytes."""

_COMMIT_CHANGES_MAX: Final = 4000
"""Maximum changes in one commit of the lexical index."""

_HEAP_BYTES: Final = 64_000_000
"""Memory of Tantivy's writer, in bytes."""


@dataclass(frozen=True, slots=True)
class LexicalParts:
    """An open lexical index.

    Attributes:
        index: searches it.
        indexer: fills it from the log; None: the log fills it itself.
    """

    index: LexicalIndex
    indexer: LexicalIndexerProcess | None

    @property
    def progress(self) -> LexicalProgress:
        """How far the index is."""
        return self.indexer or InlineLexicalProgress()


def open_index_in_log(store: LogStore, damage: LogDamage, stack: AsyncExitStack) -> LexicalParts | None:
    """Open the index that is part of the log's database; None if the log has none.

    Args:
        store: opens it.
        damage: gets the damaged messages that its reads meet.
        stack: closes it.
    """
    index = store.words(damage, stack)
    return None if index is None else LexicalParts(index, None)


def open_tantivy_index(
    settings: Settings,
    directory: DataDirectory,
    store: LogStore,
    committed: asyncio.Event,
    policy: WatchPolicy,
    threads: ReadThreads,
    stack: AsyncExitStack,
) -> LexicalParts:
    """Open the Tantivy index of a data directory.

    Args:
        settings: the configuration.
        directory: has the index.
        store: opens the feed of changes.
        committed: set after each commit to the log.
        policy: how the indexer's process is watched.
        threads: run long searches.
        stack: closes the index.
    """
    index = open_or_discard(directory.lexical, threads)
    stack.push_async_callback(index.close)
    work = Follow(
        store.feed(),
        directory.lexical,
        heap_bytes=_HEAP_BYTES,
        batch_max=_COMMIT_CHANGES_MAX,
        batch_bytes=_COMMIT_BYTES,
        wipe_max=settings.erasure.batch_size,
    )
    return LexicalParts(index, LexicalIndexerProcess(work, committed, policy))
