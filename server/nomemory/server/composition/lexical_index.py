"""Opens the lexical index: tables of the log's database, or a Tantivy index that a process of its own fills."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass

from nomemory.server.composition.log_store import LogStore
from nomemory.server.composition.rebuild_notice import rebuild_notice
from nomemory.server.data_directory import DataDirectory
from nomemory.server.lexical.protocol import LexicalIndex, LexicalProgress, WordsInLog
from nomemory.server.lexical.tantivy.indexer_calls import Follow
from nomemory.server.lexical.tantivy.indexer_process import LexicalIndexerProcess
from nomemory.server.lexical.tantivy.reader import open_or_discard
from nomemory.server.lexical.tantivy.schema import discard_foreign_words
from nomemory.server.log.damage import LogDamage
from nomemory.server.log.position import LogPosition
from nomemory.server.processes.watchdog import WatchPolicy
from nomemory.server.settings import Settings


@dataclass(frozen=True, slots=True)
class LexicalParts:
    """An open lexical index.

    Attributes:
        index: searches it.
        indexer: fills it from the log; None: the log fills it itself.
        notice: what happened to it at the start, for its status; usually empty.
    """

    index: LexicalIndex
    indexer: LexicalIndexerProcess | None
    notice: str

    @property
    def progress(self) -> LexicalProgress:
        """How far the index is."""
        return self.indexer or WordsInLog()


def open_lexical_index(
    settings: Settings,
    directory: DataDirectory,
    store: LogStore,
    position: LogPosition,
    damage: LogDamage,
    committed: asyncio.Event,
    policy: WatchPolicy,
    stack: AsyncExitStack,
) -> LexicalParts:
    """Open the index.

    Args:
        settings: the configuration.
        directory: has the index, unless the log does.
        store: opens the log's own index, and its feed.
        position: the log's; an index of another log, or ahead of it, is discarded.
        damage: gets the damaged messages that reads of the log's own index meet.
        committed: set after each commit to the log.
        policy: how the indexer's process is watched.
        stack: closes what is opened here.
    """
    notice = rebuild_notice("lexical", was_discarded=discard_foreign_words(directory.lexical, position))
    index_in_log = store.words(damage, stack)
    if index_in_log is not None:
        return LexicalParts(index_in_log, None, notice)
    index = open_or_discard(directory.lexical)
    stack.push_async_callback(index.close)
    work = Follow(
        store.feed(),
        directory.lexical,
        heap_bytes=settings.lexical.heap_bytes,
        batch_max=settings.lexical.batch_max,
        batch_bytes=settings.lexical.batch_bytes,
        wipe_max=settings.erasure.batch_max,
    )
    return LexicalParts(index, LexicalIndexerProcess(work, committed, policy), notice)
