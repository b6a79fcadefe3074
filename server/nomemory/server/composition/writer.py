"""Builds the parts that a server has once. They live in the writer's process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, closing
from functools import partial
from typing import Final

from nomemory.server.admission.read_threads import ReadThreads
from nomemory.server.composition.log_store import QueuedWriter, log_store
from nomemory.server.composition.log_watch import CommitSignal
from nomemory.server.composition.vector_spaces import FormerModelLostError, VectorSpaces, former_model
from nomemory.server.data_directory import DataDirectory
from nomemory.server.embedding.factory import NoEmbedder, choose_embedder
from nomemory.server.embedding.protocol import Embedder
from nomemory.server.lexical.postgres.inline_progress import InlineLexicalProgress
from nomemory.server.lexical.protocol import LexicalIndex, LexicalProgress
from nomemory.server.lexical.tantivy.indexer_calls import Follow
from nomemory.server.lexical.tantivy.indexer_process import LexicalIndexerProcess
from nomemory.server.lexical.tantivy.reader import open_or_discard
from nomemory.server.lexical.tantivy.schema import discard_foreign_words
from nomemory.server.log.damage import LogDamage
from nomemory.server.log.expiry import ExpiredMessages, ExpirySweeper
from nomemory.server.log.feed import ChangeFeed
from nomemory.server.log.position import FeedPosition, LogPosition
from nomemory.server.log.protocol import ErasableLog
from nomemory.server.log.writing import MeteredLog
from nomemory.server.maintenance.erasure import Erasure, Indexes
from nomemory.server.maintenance.loss import write_record
from nomemory.server.metrics import catalog
from nomemory.server.metrics.meters import Meters
from nomemory.server.metrics.samples import Samples
from nomemory.server.processes.supervisor import Supervisor
from nomemory.server.processes.watch import WatchPolicy
from nomemory.server.readers.writer_services import WriterServices
from nomemory.server.rpc.index_status import LEXICAL_JOB, StatusReport
from nomemory.server.settings import Settings
from nomemory.server.standing_faults import StandingFaults
from nomemory.server.structured_logs import get_logger
from nomemory.server.tracing.traced import traced_changes, traced_embedder
from nomemory.server.vector.collection import collection_of, discard_foreign_vectors
from nomemory.server.vector.model_change import IndexedSpace, ModelChange, SpacesInUse, UnusedCollections
from nomemory.server.vector.space import ServingSpace, VectorSpace

_SEARCH_THREADS: Final = 4
"""Number of threads for long lexical searches."""

_log = get_logger("server")
_ANEW = "it did not belong to this log, or was ahead of it, and is built anew since the server started"


def _noticed(index: str, was_foreign: bool) -> str:  # noqa: FBT001 - what the function before it returned
    if not was_foreign:
        return ""
    _log.warning("an index does not belong to this log, or is ahead of it, and is built anew", index=index)
    return _ANEW


def _tell_queue(log: QueuedWriter, process: str, samples: Samples) -> None:
    samples.put(catalog.QUEUE, log.waiting, process, "writes")


Announce = Callable[[VectorSpace], Awaitable[None]]
"""Has other processes follow a change of the model; returns when none of their reads uses the former one."""


class WriterAssembly:
    """Builds the parts and starts their background work. The stack takes them down in the opposite order.

    `announce` has other processes follow a change of the model. `meters` count in this process.
    """

    def __init__(
        self,
        settings: Settings,
        directory: DataDirectory,
        faults: StandingFaults,
        stack: AsyncExitStack,
        announce: Announce,
        meters: Meters,
    ) -> None:
        self._meters = meters
        self._settings = settings
        self._directory = directory
        self._faults = faults
        self._policy = WatchPolicy(settings.processes, faults, self._meters.roster)
        self._stack = stack
        self._supervisor = Supervisor()
        self._committed = CommitSignal()
        self._announce = announce
        self._damage = LogDamage()
        self._store = log_store(settings, directory)

    async def build(self) -> tuple[WriterServices, LexicalIndex, LogDamage]:
        """Build everything; return the lexical index for reading, too, and what is known of damage to the log.

        Raises:
            ForeignCollectionError, and others that are a `CannotStartError`.
        """
        settings = self._settings
        around = partial(traced_embedder, settings=settings)
        embedder = choose_embedder(settings, self._policy, around, self._meters)
        writer, erasable = self._store.writing(self._committed.announce, self._stack)
        self._sweep(writer)
        log = self._store.reading(self._damage, self._stack)
        self._inspect()
        position = self._record_position()
        notice = _noticed("lexical", discard_foreign_words(self._directory.lexical, position))
        lexical, words = self._lexical()
        spaces = self._spaces(embedder, position)
        await spaces.refuse_foreign()
        unused = UnusedCollections(self._settings, self._directory.vectors, spaces, self._store.shared_index)
        serving = ServingSpace(spaces.serving.space)
        self._follow_the_model(spaces, serving, unused)
        self._erase(erasable, Indexes(lexical, spaces, unused))
        report = StatusReport(log, lexical, spaces, self._supervisor.fault, self._faults, notice, self._damage)
        self._meters.also(partial(_tell_queue, writer, self._meters.process))
        counted = traced_changes(MeteredLog(writer, self._meters), settings)
        return WriterServices(counted, serving, report), words, self._damage

    def _sweep(self, log: ExpiredMessages) -> None:
        settings = self._settings
        sweeper = ExpirySweeper(log, settings.retention.sweep_s, settings.retention.sweep_batch_max)
        self._supervisor.run_within(self._stack, "expiry-sweeper", sweeper.run, sweeper.stop)

    def _inspect(self) -> None:
        inspector = self._store.inspector(self._damage)
        if inspector is not None:
            self._supervisor.run_within(self._stack, "log-inspector", inspector.run, inspector.stop)

    def _record_position(self) -> LogPosition:
        """Record how far the log is, now and in the end."""
        log = self._position()
        write_record(self._directory.record, log)
        self._stack.callback(self._record_end)
        return log

    def _record_end(self) -> None:
        try:
            write_record(self._directory.record, self._position())
        except OSError as error:
            _log.warning("it could not be recorded how far the log is", cause=error.strerror)

    def _position(self) -> LogPosition:
        with closing(self._open_feed()) as feed:
            return feed.position()

    def _reached(self) -> FeedPosition:
        with closing(self._open_feed()) as feed:
            return feed.reached()

    def _erase(self, log: ErasableLog, indexes: Indexes) -> None:
        erasure = Erasure(log, indexes, self._settings, self._faults)
        self._supervisor.run_within(self._stack, "erasure", erasure.run)

    def _open_feed(self) -> ChangeFeed:
        return self._store.feed(self._damage)()

    def _lexical(self) -> tuple[LexicalProgress, LexicalIndex]:
        words_in_log = self._store.words(self._damage, self._stack)
        return (InlineLexicalProgress(), words_in_log) if words_in_log is not None else self._words_beside()

    def _words_beside(self) -> tuple[LexicalIndexerProcess, LexicalIndex]:
        threads = ReadThreads(_SEARCH_THREADS)
        self._stack.push_async_callback(threads.close)
        words = open_or_discard(self._directory.lexical, threads)
        self._stack.push_async_callback(words.close)
        work = Follow(
            self._store.feed(),
            self._directory.lexical,
            heap_bytes=self._settings.lexical.heap_bytes,
            batch_max=self._settings.lexical.batch_max,
            batch_bytes=self._settings.lexical.batch_bytes,
            wipe_max=self._settings.erasure.batch_max,
        )
        indexer = LexicalIndexerProcess(work, self._committed.follow(), self._policy)
        self._supervisor.run_within(self._stack, LEXICAL_JOB, indexer.run, indexer.stop)
        return indexer, words

    def _spaces(self, embedder: Embedder, log: LogPosition) -> SpacesInUse:
        """Build what serves by meaning, and after a change of the model what takes its place."""
        collection = collection_of(self._settings, self._directory.vectors, embedder)
        notice = _noticed(collection.name, discard_foreign_vectors(collection, log))
        faults, change_notice = self._faults.former(), ""
        try:
            former = former_model(self._settings, self._directory, embedder, log, faults, self._meters)
        except FormerModelLostError as error:
            _log.warning("the model has changed, and the former one cannot serve on", cause=str(error))
            former, change_notice = None, str(error)
        roster, log_id = self._meters.roster, log.identity.log_id
        builder = VectorSpaces(self._directory, self._store, self._committed, roster, log_id)
        ours = self._taken_down(builder.build(self._settings, embedder, self._faults))
        if former is None:
            return SpacesInUse(ours, None, notice, change_notice)
        _log.info("the model has changed: the former one serves until everything is indexed", coming=collection.name)
        watched = former.watched
        serving = builder.build(former.settings, former.embedder, faults, lambda: watched.failing_s)
        return SpacesInUse(self._taken_down(serving), ours, notice)

    def _taken_down(self, one: IndexedSpace) -> IndexedSpace:
        self._stack.push_async_callback(one.close)
        return one

    def _follow_the_model(self, spaces: SpacesInUse, serving: ServingSpace, unused: UnusedCollections) -> None:
        settings = self._settings
        if spaces.serving.space.embedder.kind == NoEmbedder.kind:
            return  # a server without a model for a while keeps what a model has made
        change = ModelChange(
            spaces,
            serving,
            unused,
            self._reached(),
            settings.embedder.former_patience_s,
            settings.timing.deadline_default_s,
            self._announce,
        )
        self._supervisor.run_within(self._stack, "model-change", change.run)
