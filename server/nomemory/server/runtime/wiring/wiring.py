"""Construction of the components of a server in dependency order."""

from __future__ import annotations

from contextlib import AsyncExitStack, closing
from functools import partial
from typing import Final

from nomemory.server.api.services.index_status import LEXICAL_JOB, LocalStatusReporter
from nomemory.server.embedding.factory import DisabledEmbedder, choose_embedder
from nomemory.server.indexing.vector.collection_cleanup import CollectionCleanup
from nomemory.server.indexing.vector.model_migration import ModelMigration
from nomemory.server.runtime.active_faults import ActiveFaults
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.metrics import catalog
from nomemory.server.runtime.metrics.meters import Meters
from nomemory.server.runtime.metrics.samples import Samples
from nomemory.server.runtime.processes.supervisor import Supervisor
from nomemory.server.runtime.processes.watchdog import build_watch_policy
from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.tracing.traced import trace_embedder, trace_log_writer
from nomemory.server.runtime.wiring.active_spaces import open_indexed_spaces
from nomemory.server.runtime.wiring.commit_signal import CommitSignal
from nomemory.server.runtime.wiring.lexical_index import open_database_index, open_tantivy_index
from nomemory.server.runtime.wiring.log_store import LogStore, QueuedWriter, choose_log_store
from nomemory.server.runtime.wiring.position_recording import record_position
from nomemory.server.runtime.wiring.rebuild_notice import log_rebuild_notice
from nomemory.server.runtime.wiring.server_components import ServerComponents
from nomemory.server.runtime.wiring.vector_spaces import VectorSpaces
from nomemory.server.search.lexical.tantivy.schema import discard_foreign_index
from nomemory.server.search.semantic.active_index import ActiveSpace
from nomemory.server.store.damage import DamageRegistry
from nomemory.server.store.erasure import ErasableIndexes, ErasureTask
from nomemory.server.store.expiry_sweeper import ExpirySweeper
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.write_queue import MeteredLogWriter

_READ_THREADS: Final = 1
"""Number of threads for expensive reads. Ranking and highlighting hold the GIL: a second thread would not make them
faster but would delay the event loop (docs/performance.md, Overload by one user)."""


async def build_components(
    settings: Settings, directory: DataDirectory, faults: ActiveFaults, meters: Meters, stack: AsyncExitStack
) -> ServerComponents:
    """Construct the components of a server and start their background jobs.

    This server must hold the lock of `directory`. On exit, `stack` stops the jobs and closes the components in reverse
    order.

    Raises:
        StartupError: the settings or the data directory are invalid.
    """
    store, damage_registry, committed = choose_log_store(settings, directory), DamageRegistry(), CommitSignal()
    supervisor, policy = Supervisor(), build_watch_policy(settings.processes, faults, meters.processes)

    embedder = choose_embedder(settings, policy, partial(trace_embedder, settings=settings), meters)

    writer, erasable = store.open_writer(committed.announce, stack)
    sweeper = ExpirySweeper(writer, settings.retention.sweep_interval_s, settings.retention.sweep_batch_size)
    supervisor.supervise(stack, "expiry-sweeper", sweeper.run, sweeper.stop)
    threads = ReadThreads(_READ_THREADS)
    log = store.open_reader(damage_registry, stack, threads)
    stack.push_async_callback(threads.close)  # closed before the message log, which the threads read
    inspector = store.create_inspector(damage_registry)
    if inspector is not None:
        supervisor.supervise(stack, "log-inspector", inspector.run, inspector.stop)
    position = record_position(store, directory.log_position_file, stack)

    notice = log_rebuild_notice("lexical", was_discarded=discard_foreign_index(directory.lexical_index, position))
    lexical = open_database_index(store, damage_registry, stack) or open_tantivy_index(
        settings, directory, store, committed.subscribe(), policy, threads, stack
    )
    if lexical.indexer is not None:
        supervisor.supervise(stack, LEXICAL_JOB, lexical.indexer.run, lexical.indexer.stop)

    builder = VectorSpaces(directory, store, committed, meters.processes, position.identity.log_id)
    spaces = await open_indexed_spaces(settings, builder, embedder, position, faults, meters, stack)
    cleanup = CollectionCleanup(settings, directory.vector_collections, spaces, store.create_shared_index)
    serving = ActiveSpace(spaces.active.space)
    if spaces.active.space.embedder.kind != DisabledEmbedder.kind:  # without an embedder, existing indexes are kept
        migration = ModelMigration(
            spaces,
            serving,
            cleanup,
            _read_log_end_position(store),
            settings.embedder.previous_timeout_s,
            settings.timing.default_deadline_s,
        )
        supervisor.supervise(stack, "model-migration", migration.run)

    erasure = ErasureTask(erasable, ErasableIndexes(lexical.progress, spaces, cleanup), settings, faults)
    supervisor.supervise(stack, "erasure", erasure.run)

    report = LocalStatusReporter(log, lexical.progress, spaces, supervisor.fault, faults, notice, damage_registry)
    meters.add_source(partial(_sample_write_queue, writer))
    metered_writer = trace_log_writer(MeteredLogWriter(writer, meters), settings)
    return ServerComponents(log, metered_writer, lexical.index, serving, report, faults, threads)


def _read_log_end_position(store: LogStore) -> FeedPosition:
    with closing(store.make_feed_opener()()) as feed:
        return feed.read_end_position()


def _sample_write_queue(writer: QueuedWriter, samples: Samples) -> None:
    samples.set_value(catalog.QUEUE, writer.queued_job_count, "writes")
