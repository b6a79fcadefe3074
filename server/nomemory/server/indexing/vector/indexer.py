"""The background job that keeps the vector index up to date with the message log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from nomemory.server.embedding.local import compute_document_concurrency
from nomemory.server.embedding.protocol import Embedder, may_be_caused_by_text
from nomemory.server.faults import Fault, Reason
from nomemory.server.indexing.vector.backlog import Backlog, BacklogReader
from nomemory.server.indexing.vector.backlog_feed import BacklogFeed
from nomemory.server.indexing.vector.document_vectors import DocumentVectors
from nomemory.server.indexing.vector.embed_and_upsert import BatchIndexer
from nomemory.server.indexing.vector.indexing_leader import IndexingLeader
from nomemory.server.indexing.vector.maintenance import IndexMaintenance
from nomemory.server.indexing.vector.text_parts import split_text
from nomemory.server.runtime.active_faults import ActiveFaults
from nomemory.server.runtime.backoff import Backoff
from nomemory.server.runtime.processes.supervisor import JobFault
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.structured_logs import get_logger
from nomemory.server.search.semantic.collection import create_embedder_collection
from nomemory.server.search.semantic.hot_users import HotUserTracker
from nomemory.server.search.semantic.index_progress import IndexerStatus
from nomemory.server.search.semantic.protocol import VectorIndex
from nomemory.server.store.change_feed import ChangeFeed
from nomemory.server.store.feed_position import FeedPosition

if TYPE_CHECKING:
    from nomemory.server.indexing.vector.postgres_index import PostgresSharedIndex

_HOT_USER_S: Final = 60.0
"""Time for which the backlog of a user has priority after a semantic query, in seconds."""

_log = get_logger("vectors")

_T = TypeVar("_T")
_POLL_S = 0.5
_GATHER_S = 0.005
"""Delay before reading changes, so that the write returns first and changes are read in batches."""
_BATCH_POINTS = 32
"""Points per upsert with the embedded engine. Larger batches are not faster, and delay searches."""
_SENT_POINTS = 256
"""Points per upsert with a Qdrant server, where each request has a high fixed cost on every node."""
_LOCAL_TEXTS = 32
"""Texts per parallel batch in one call of the local embedder. A call takes about a third of a second.

The messages of a hot user are indexed after the current call. In smaller batches, the lengths of texts would be less
similar, which would increase the padding.
"""
_FIRST_WAIT_S, _MAX_WAIT_S, _MAX_REQUESTED_WAIT_S = 0.2, 30.0, 300.0
_TRANSIENT = frozenset({Reason.ERROR_REASON_EMBEDDER_UNAVAILABLE, Reason.ERROR_REASON_INDEX_UNAVAILABLE})


class VectorIndexer:
    """Fills the backlog from the message log and indexes the pending messages.

    Indexing a message depends only on the current state of the message log, so indexing is idempotent and independent
    of the order of changes. All methods must be called from the event loop.

    Args:
        open_feed: opens a change feed; called in the background thread of the indexer.
        vectors: the directory of all collections; each collection has its own backlog.
        changed: the event that is set when the message log has changed; the message log is also polled twice a second.
        faults: receives the fault if the index is damaged.
        shared: the state of a shared index; None if only this server uses it.
    """

    def __init__(
        self,
        open_feed: Callable[[], ChangeFeed],
        index: VectorIndex,
        embedder: Embedder,
        vectors: Path,
        settings: Settings,
        changed: asyncio.Event,
        faults: ActiveFaults | None = None,
        shared: PostgresSharedIndex | None = None,
    ) -> None:
        self._shared = shared
        self._thread: ThreadPoolExecutor
        self._feed: BacklogFeed
        self._leader: IndexingLeader | None = None
        self._term = 0
        self._faults = faults or ActiveFaults()
        collection = create_embedder_collection(settings, vectors, embedder)
        self.collection = collection.name
        self.directory = collection.directory
        self._open_feed = open_feed
        self._index = index
        self._backlog = Backlog(collection.backlog)
        self._embedder = embedder
        self._settings = settings
        self._progress = BacklogReader(collection.backlog)
        self._hot = HotUserTracker(_HOT_USER_S)
        concurrent_batches = compute_document_concurrency()
        call_max = {"openai": settings.embedder.batch_size, "local": _LOCAL_TEXTS * concurrent_batches}.get(
            embedder.kind, 1
        )
        batch_points = _BATCH_POINTS if settings.vector.qdrant_url is None else _SENT_POINTS
        self._max_taken = max(batch_points, call_max)
        self._vectors = DocumentVectors(embedder, call_max, call_max + settings.embedder.max_chunks)
        self._batches = BatchIndexer(
            index, self._vectors, call_max, batch_points, self._is_interrupted, self._may_write
        )
        self._changed, self._fed, self._stopping = changed, asyncio.Event(), asyncio.Event()
        self._should_interrupt = False
        self._is_dirty, self._flushed_at = False, time.monotonic()
        self._backoff = Backoff(_FIRST_WAIT_S, _MAX_WAIT_S)
        self._fault: JobFault | None = None
        self._erasure: asyncio.Future[None] | None = None

    async def is_lagging(self, user_id: str, sequence: int) -> bool:
        """Return whether the index may lack changes of a user up to a sequence number."""
        if self._shared is not None:
            return await self._shared.is_lagging(user_id, sequence)
        return self._progress.is_behind(user_id, sequence)

    def poll(self) -> None:
        """Poll the message log now, because a read waits for a change that another server may have written."""
        self._changed.set()

    def record_query(self, user_id: str) -> None:
        """Record that a user was queried; the pending messages of this user then have priority."""
        if self._hot.record_query(user_id) and self._progress.has_pending_messages(user_id):
            self._should_interrupt = True

    @property
    def fault(self) -> JobFault | None:
        """The indexing error that is being retried; None if indexing succeeds."""
        return self._fault

    @property
    def texts_embedded(self) -> int:
        """The number of texts that have been embedded."""
        return self._vectors.embedded

    async def status(self, user_id: str | None = None, prefix: str = "") -> IndexerStatus:
        """Return the state of the index for one user, or for all users whose ids begin with a prefix."""
        if self._shared is not None:
            return await self._shared.status(user_id, prefix)
        fed = (
            self._progress.read_feed_position()
        )  # read first, so that a change fed in the meantime is counted twice instead of not at all
        counts = self._progress.count_messages(user_id, prefix)
        dead_letter_ids = () if user_id is None else tuple(self._progress.list_dead_letter_ids(user_id))
        checkpoint = self._progress.read_checkpoint()
        return IndexerStatus(fed, checkpoint, counts.pending, counts.dead_letters, dead_letter_ids)

    async def read_checkpoint(self) -> FeedPosition:
        """Return the position up to which every change is indexed or recorded as a dead letter."""
        if self._shared is not None:
            return await self._shared.read_checkpoint()
        return self._progress.read_checkpoint()

    async def erase_backlog(self) -> None:
        """Wait until `run` has erased completed rows from the backlog file. Concurrent calls are not supported.

        Raises:
            Fault: INDEX_UNAVAILABLE, the indexer was stopped or the index cannot be written.
        """
        if self._stopping.is_set():
            raise _build_stopped_fault()
        self._erasure = asyncio.get_running_loop().create_future()
        self._fed.set()
        await self._erasure

    def stop(self) -> None:
        """Finish the current batch, flush the index, and end `run`. A stopped indexer cannot be restarted."""
        self._stopping.set()
        if self._erasure is not None and not self._erasure.done():
            self._erasure.set_exception(_build_stopped_fault())
        self._changed.set()
        self._fed.set()

    def close(self) -> None:
        """Close the backlog; no other method may be called afterwards."""
        self._progress.close()
        self._backlog.close()

    async def run(self) -> None:
        """Index messages until `stop` is called. `run` can be called again after an error."""
        with ThreadPoolExecutor(1, "vector-store") as self._thread:
            self._feed = await self._run_in_store_thread(self._open_backlog_feed)
            maintenance = self._create_maintenance()
            try:
                async with asyncio.TaskGroup() as tasks:
                    maintaining = tasks.create_task(maintenance.run())
                    tasks.create_task(self._feed_backlog())
                    if self._shared is not None:
                        self._leader = self._create_leader(self._shared)
                        tasks.create_task(self._leader.run())
                    tasks.create_task(self._index_pending(maintenance)).add_done_callback(
                        lambda _: maintaining.cancel()
                    )
            except ExceptionGroup as failures:
                raise failures.exceptions[0] from None  # the first error cancelled the other tasks
            finally:
                await self._run_in_store_thread(self._feed.close)

    def _split_text(self, text: str) -> list[str]:
        embedder = self._settings.embedder
        return split_text(text, embedder.chunk_chars, embedder.max_chunks)

    def _open_backlog_feed(self) -> BacklogFeed:
        return BacklogFeed(
            self._open_feed(),
            self._backlog,
            self._embedder.dimension,
            None if self._embedder.kind == "none" else self._split_text,
            is_shared=self._shared is not None,
        )

    async def _run_in_store_thread(self, job: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, job)

    async def _feed_backlog(self) -> None:
        """Copy the change feed to the backlog. If more changes follow a batch, pause for as long as the batch took."""
        while not self._stopping.is_set():
            self._changed.clear()
            began_at = time.monotonic()
            has_more = await self._run_in_store_thread(self._feed.copy_changes)
            self._fed.set()
            if has_more:
                await asyncio.sleep(time.monotonic() - began_at)
            else:
                await _wait_for_event(self._changed, _POLL_S)
                await _wait_for_event(self._stopping, _GATHER_S)

    def _create_leader(self, shared: PostgresSharedIndex) -> IndexingLeader:
        return IndexingLeader(
            shared.create_leader_lock(),
            self._feed,
            self._run_in_store_thread,
            self._index,
            self._hot.users,
            self._record_remote_query,
            self._changed.set,
        )

    def _record_remote_query(self, user_id: str) -> None:
        self.record_query(user_id)
        self.poll()

    def _may_write(self) -> bool:
        """Return whether this server is the only one, or has been the leader since the current batch began."""
        leader = self._leader
        return self._shared is None or (leader is not None and leader.may_write and leader.terms == self._term)

    def _create_maintenance(self) -> IndexMaintenance:
        expected = self._feed.make_expected_points(self._settings.embedder.chunk_chars)
        return IndexMaintenance(
            self._index, self._feed, self._run_in_store_thread, self._progress, expected, self._faults, self._fed.set
        )

    async def _index_pending(self, maintenance: IndexMaintenance) -> None:
        """Index pending messages, with exponential backoff after errors."""
        is_checked = False
        while not self._stopping.is_set():
            try:
                if not is_checked:
                    await maintenance.check_for_loss()
                    is_checked = True
                self._fed.clear()
                is_busy = await self._index_batch()
                if time.monotonic() - self._flushed_at >= self._settings.vector.flush_interval_s:
                    await self._flush()
                await self._erase_if_requested()
            except Fault as fault:
                await self._back_off(fault)
                with suppress(Fault):  # retried after the backoff
                    await self._erase_if_requested()
                continue
            self._fault = None
            self._backoff.reset()
            if not is_busy:
                await _wait_for_event(self._fed, _POLL_S)
        with suppress(Fault):  # unflushed messages are indexed again after a restart
            await self._flush()
        if self._leader is not None:
            self._leader.stop()  # after the last write

    async def _index_batch(self) -> bool:
        """Index one batch of pending messages; return False if there was no batch to index."""
        self._should_interrupt = False
        self._term = self._leader.terms if self._leader is not None else 0
        if not self._may_write():
            return False
        work = await self._run_in_store_thread(
            partial(self._feed.read_pending_messages, self._hot.users(), self._max_taken)
        )
        if not work:
            return False
        batch, fault = await self._batches.index_batch(work)
        self._is_dirty = True
        await self._run_in_store_thread(partial(self._feed.record_results, batch.parts, batch.refused))
        if self._leader is not None:
            self._leader.record_progress()
        if fault is not None:
            raise fault
        return True

    async def _flush(self) -> None:
        if self._is_dirty:
            await self._index.flush()
            await self._run_in_store_thread(self._backlog.delete_applied_rows)
            self._is_dirty = False
        self._flushed_at = time.monotonic()

    async def _erase_if_requested(self) -> None:
        erasure = self._erasure
        if erasure is None or erasure.done():
            return
        try:
            await self._flush()
            await self._run_in_store_thread(self._backlog.erase_deleted)
        except Fault as fault:
            if not erasure.done():
                erasure.set_exception(fault)
            raise
        if not erasure.done():
            erasure.set_result(None)

    async def _back_off(self, fault: Fault) -> None:
        """Wait before the next attempt, at least for the delay that the provider requested."""
        if fault.reason not in _TRANSIENT:
            raise fault
        kind, now_s = Reason.Name(fault.reason), time.time()
        self._fault = JobFault(kind, self._fault.since_s if self._fault else now_s, now_s)
        wait_s = self._backoff.compute_next_delay_s()
        if not may_be_caused_by_text(fault):
            wait_s = max(wait_s, min(fault.retry_after_s or 0.0, _MAX_REQUESTED_WAIT_S))
        await _wait_for_event(self._stopping, wait_s)

    def _is_interrupted(self) -> bool:
        return self._should_interrupt or self._stopping.is_set()


def _build_stopped_fault() -> Fault:
    return Fault(Reason.ERROR_REASON_INDEX_UNAVAILABLE, "the vector indexer was stopped")


async def _wait_for_event(event: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return
