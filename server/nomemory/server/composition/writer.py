"""Builds the parts that a server has once. They live in the writer's process."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, closing
from functools import partial

import structlog

from nomemory.server.composition.services import open_log
from nomemory.server.data_directory import DataDirectory
from nomemory.server.embedding.cache_erasure import CacheErasure
from nomemory.server.embedding.factory import choose_embedder
from nomemory.server.embedding.protocol import Embedder
from nomemory.server.embedding.vector_store import model_of
from nomemory.server.erasure import Erasure, Indexes
from nomemory.server.lexical.factory import open_or_discard_lexical_index
from nomemory.server.lexical.indexer_process import LexicalIndexerProcess
from nomemory.server.lexical.protocol import LexicalIndex
from nomemory.server.lexical.tantivy_schema import discard_foreign_words
from nomemory.server.log.damage import LogDamage
from nomemory.server.log.expiry_sweeper import ExpirySweeper
from nomemory.server.log.identity import LogPosition
from nomemory.server.log.inspection import LogInspector
from nomemory.server.log.lifetimes import Lifetimes
from nomemory.server.log.protocol import ChangeFeed, ErasableLog, ExpiredMessages
from nomemory.server.log.record import write_record
from nomemory.server.log.sqlite_erasure import SqliteLogErasure
from nomemory.server.log.sqlite_feed import SqliteChangeFeed
from nomemory.server.log.sqlite_writer import SqliteLogWriter
from nomemory.server.processes.supervisor import Supervisor
from nomemory.server.processes.watch import Patience, Vigil
from nomemory.server.readers.writer_services import WriterServices
from nomemory.server.rpc.index_status import LEXICAL_JOB, VECTOR_JOB, Notices, StatusReport
from nomemory.server.settings import Settings
from nomemory.server.standing_faults import StandingFaults
from nomemory.server.vector.checkpoint import discard_foreign_vectors
from nomemory.server.vector.chunking import parts_of
from nomemory.server.vector.collection import collection_of
from nomemory.server.vector.factory import choose_vector_index
from nomemory.server.vector.indexer import VectorIndexer
from nomemory.server.vector.living_texts import living_texts
from nomemory.server.vector.protocol import VectorIndex
from nomemory.server.vector.reachability import Reachability

_log = structlog.get_logger("server")
_ANEW = "it did not belong to this log, or was ahead of it, and is built anew since the server started"


def _noticed(index: str, was_foreign: bool) -> str:  # noqa: FBT001 - what the function before it returned
    if not was_foreign:
        return ""
    _log.warning("an index does not belong to this log, or is ahead of it, and is built anew", index=index)
    return _ANEW


class WriterAssembly:
    """Builds the parts and starts their background work. The stack takes them down in the opposite order."""

    def __init__(
        self, settings: Settings, directory: DataDirectory, faults: StandingFaults, stack: AsyncExitStack
    ) -> None:
        self._settings = settings
        self._directory = directory
        self._faults = faults
        self._vigil = Vigil(Patience.of(settings), faults)
        self._stack = stack
        self._supervisor = Supervisor()
        self._committed = CommitSignal()
        self._damage = LogDamage()

    def build(self) -> tuple[WriterServices, LexicalIndex, LogDamage]:
        """Build everything; return the lexical index for reading, too, and what is known of damage to the log."""
        embedder = choose_embedder(self._settings, self._vigil)
        self._stack.push_async_callback(embedder.close)
        writer, erasable = self._log_writer()
        log = open_log(self._settings, self._directory, self._stack, self._damage)
        self._inspect()
        notices = self._discard_foreign_indexes(embedder)
        lexical, words = self._lexical()
        vectors, vector_indexer = self._vector(embedder)
        kept = self._kept_vectors(embedder)
        self._erase(erasable, Indexes(lexical, vectors, vector_indexer, self._directory.vectors, kept))
        report = StatusReport(
            log, lexical, vector_indexer, embedder, self._supervisor.fault, self._faults, notices, self._damage
        )
        return WriterServices(writer, vectors, embedder, vector_indexer, report), words, self._damage

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

    def _inspect(self) -> None:
        settings = self._settings
        inspector = LogInspector(self._directory.log, self._damage, settings.check.interval_s, settings.check.pause_s)
        task = self._supervisor.start_task("log-inspector", inspector.run)
        self._stack.push_async_callback(asyncio.wait, [task])
        self._stack.callback(inspector.stop)
        self._stack.callback(self._supervisor.stop)

    def _discard_foreign_indexes(self, embedder: Embedder) -> Notices:
        """Discard the indexes that cannot go on with this log, and record how far it is, now and in the end."""
        log = self._position()
        write_record(self._directory.record, log)
        self._stack.callback(self._record_end)
        collection = collection_of(self._settings, self._directory.vectors, embedder)
        return Notices(
            _noticed("lexical", discard_foreign_words(self._directory.lexical, log)),
            _noticed(collection.name, discard_foreign_vectors(collection, log)),
        )

    def _record_end(self) -> None:
        try:
            write_record(self._directory.record, self._position())
        except OSError as error:
            _log.warning("it could not be recorded how far the log is", cause=error.strerror)

    def _position(self) -> LogPosition:
        with closing(self._open_feed()) as feed:
            return feed.position()

    def _kept_vectors(self, embedder: Embedder) -> CacheErasure | None:
        settings = self._settings.embedder
        if settings.cache is None:
            return None
        cut = partial(parts_of, part_chars=settings.part_chars, parts_max=settings.parts_max)
        kept = CacheErasure(settings.cache, model_of(embedder), partial(living_texts, self._open_feed, cut))
        self._stack.callback(kept.stop)
        return kept

    def _erase(self, log: ErasableLog, indexes: Indexes) -> None:
        erasure = Erasure(log, indexes, self._settings, self._faults)
        task = self._supervisor.start_task("erasure", erasure.run)
        self._stack.push_async_callback(asyncio.wait, [task])
        self._stack.callback(task.cancel)

    def _open_feed(self) -> ChangeFeed:
        return SqliteChangeFeed(self._directory.log, self._damage)

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
            vigil=self._vigil,
        )
        task = self._supervisor.start_task(LEXICAL_JOB, indexer.run)
        self._stack.push_async_callback(asyncio.wait, [task])
        self._stack.callback(indexer.stop)
        return indexer, words

    def _vector(self, embedder: Embedder) -> tuple[VectorIndex, VectorIndexer]:
        directory = self._directory.vectors
        index = choose_vector_index(self._settings, directory, embedder, self._vigil)
        self._stack.push_async_callback(index.close)
        indexer = VectorIndexer(
            self._open_feed, index, embedder, directory, self._settings, self._committed.vector, self._faults
        )
        self._stack.callback(indexer.close)
        if self._settings.vector.qdrant_url is not None:
            self._probe(index)
        task = self._supervisor.start_task(VECTOR_JOB, indexer.run)
        self._stack.push_async_callback(asyncio.wait, [task])
        self._stack.callback(indexer.stop)
        self._stack.callback(self._supervisor.stop)
        return index, indexer

    def _probe(self, index: VectorIndex) -> None:
        reachability = Reachability(index, self._settings.vector.probe_s, self._faults)
        task = self._supervisor.start_task("vector-probe", reachability.run)
        self._stack.push_async_callback(asyncio.wait, [task])
        self._stack.callback(reachability.stop)


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
