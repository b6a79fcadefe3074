"""Builds the parts that a server has once. They live in the writer's process."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, closing

from nomemory.server.composition.services import open_log
from nomemory.server.data_directory import DataDirectory
from nomemory.server.embedding.factory import choose_embedder
from nomemory.server.embedding.protocol import Embedder
from nomemory.server.erasure import Erasure, Indexes
from nomemory.server.lexical.factory import open_or_discard_lexical_index
from nomemory.server.lexical.indexer_process import LexicalIndexerProcess
from nomemory.server.lexical.protocol import LexicalIndex
from nomemory.server.log.expiry_sweeper import ExpirySweeper
from nomemory.server.log.lifetimes import Lifetimes
from nomemory.server.log.protocol import ChangeFeed, ErasableLog, ExpiredMessages
from nomemory.server.log.sqlite_erasure import SqliteLogErasure
from nomemory.server.log.sqlite_feed import SqliteChangeFeed
from nomemory.server.log.sqlite_writer import SqliteLogWriter
from nomemory.server.processes.supervisor import Supervisor
from nomemory.server.readers.writer_services import WriterServices
from nomemory.server.rpc.index_status import LEXICAL_JOB, VECTOR_JOB, StatusReport
from nomemory.server.settings import Settings
from nomemory.server.vector.factory import choose_vector_index
from nomemory.server.vector.indexer import VectorIndexer
from nomemory.server.vector.protocol import VectorIndex


class WriterAssembly:
    """Builds the parts and starts their background work. The stack takes them down in the opposite order."""

    def __init__(self, settings: Settings, directory: DataDirectory, stack: AsyncExitStack) -> None:
        self._settings = settings
        self._directory = directory
        self._stack = stack
        self._supervisor = Supervisor()
        self._committed = CommitSignal()

    def build(self) -> tuple[WriterServices, LexicalIndex]:
        """Build everything; return the lexical index for reading, too."""
        embedder = choose_embedder(self._settings)
        self._stack.push_async_callback(embedder.close)
        writer, erasable = self._log_writer()
        log = open_log(self._settings, self._directory, self._stack)
        lexical, words = self._lexical()
        vectors, vector_indexer = self._vector(embedder)
        self._erase(erasable, lexical, vectors, vector_indexer)
        report = StatusReport(log, lexical, vector_indexer, embedder, self._supervisor.fault)
        return WriterServices(writer, vectors, embedder, vector_indexer, report), words

    def _log_writer(self) -> tuple[SqliteLogWriter, ErasableLog]:
        writer = SqliteLogWriter(
            self._directory.log,
            queue_max=self._settings.log.queue_max,
            queue_max_bytes=self._settings.log.queue_max_bytes,
            announce=self._committed.announce,
            lifetimes=Lifetimes.of_days(self._settings.retention.days),
        )
        erasable = SqliteLogErasure(writer, self._directory.log, self._settings.erasure.vacuum_max_bytes)
        self._stack.callback(erasable.close)  # after every connection to the file
        self._stack.enter_context(closing(writer))
        self._sweep(writer)
        return writer, erasable

    def _sweep(self, log: ExpiredMessages) -> None:
        settings = self._settings
        sweeper = ExpirySweeper(log, settings.retention.sweep_s, settings.retention.sweep_batch_max)
        task = self._supervisor.start_task("expiry-sweeper", sweeper.run)
        self._stack.push_async_callback(asyncio.wait, [task])
        self._stack.callback(sweeper.stop)
        self._stack.callback(self._supervisor.stop)

    def _erase(
        self, log: ErasableLog, lexical: LexicalIndexerProcess, vectors: VectorIndex, vector_indexer: VectorIndexer
    ) -> None:
        indexes = Indexes(lexical, vectors, vector_indexer, self._directory.vectors)
        erasure = Erasure(log, indexes, self._settings)
        task = self._supervisor.start_task("erasure", erasure.run)
        self._stack.push_async_callback(asyncio.wait, [task])
        self._stack.callback(task.cancel)

    def _open_feed(self) -> ChangeFeed:
        return SqliteChangeFeed(self._directory.log)

    def _lexical(self) -> tuple[LexicalIndexerProcess, LexicalIndex]:
        words = open_or_discard_lexical_index(self._directory.lexical)
        self._stack.push_async_callback(words.close)
        indexer = LexicalIndexerProcess(
            self._directory.log,
            self._directory.lexical,
            heap_bytes=self._settings.lexical.heap_bytes,
            batch_max=self._settings.lexical.batch_max,
            batch_bytes=self._settings.lexical.batch_bytes,
            wipe_max=self._settings.erasure.batch_max,
            wake=self._committed.lexical,
        )
        task = self._supervisor.start_task(LEXICAL_JOB, indexer.run)
        self._stack.push_async_callback(asyncio.wait, [task])
        self._stack.callback(indexer.stop)
        return indexer, words

    def _vector(self, embedder: Embedder) -> tuple[VectorIndex, VectorIndexer]:
        directory = self._directory.vectors
        index = choose_vector_index(self._settings, directory, embedder)
        self._stack.push_async_callback(index.close)
        indexer = VectorIndexer(self._open_feed, index, embedder, directory, self._settings, self._committed.vector)
        self._stack.callback(indexer.close)
        task = self._supervisor.start_task(VECTOR_JOB, indexer.run)
        self._stack.push_async_callback(asyncio.wait, [task])
        self._stack.callback(indexer.stop)
        self._stack.callback(self._supervisor.stop)
        return index, indexer


class CommitSignal:
    """Tells the indexers, from the log writer's thread, that there is something new.

    Attributes:
        lexical: set after each commit, for the lexical indexer to clear.
        vector: the same for the vector indexer.
    """

    def __init__(self) -> None:
        self.lexical = asyncio.Event()
        self.vector = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def announce(self) -> None:
        """Report a commit. Safe to call from any thread."""
        self._loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        self.lexical.set()
        self.vector.set()
