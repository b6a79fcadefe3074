"""The background job that keeps the vector index in line with the log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from nomemory.server.backoff import Backoff
from nomemory.server.embedding.local import documents_at_once
from nomemory.server.embedding.protocol import Embedder, is_about_texts
from nomemory.server.faults import Fault, Reason
from nomemory.server.log.feed import ChangeFeed
from nomemory.server.log.position import FeedPosition
from nomemory.server.processes.supervisor import JobFault
from nomemory.server.settings import Settings
from nomemory.server.standing_faults import StandingFaults
from nomemory.server.structured_logs import get_logger
from nomemory.server.vector.collection import collection_of
from nomemory.server.vector.indexing.applier import Applier, DocumentVectors, parts_of
from nomemory.server.vector.indexing.backlog import Backlog, BacklogReader
from nomemory.server.vector.indexing.filler import Filler
from nomemory.server.vector.indexing.store import IndexingStore
from nomemory.server.vector.indexing.upkeep import Upkeep
from nomemory.server.vector.protocol import VectorIndex
from nomemory.server.vector.space import HotUsers, IndexerStatus

if TYPE_CHECKING:
    from nomemory.server.vector.shared.postgres_index import PostgresSharedIndex

_log = get_logger("vectors")

_T = TypeVar("_T")
_POLL_S = 0.5
_GATHER_S = 0.005
"""How long a change waits: whoever wrote it is answered first, and what comes together is taken in together."""
_BATCH_POINTS = 32
"""Points that the embedded engine stores at once. With more it is no faster, and searches wait longer behind them."""
_SENT_POINTS = 256
"""Points that a Qdrant server is sent at once: a request costs each of its nodes more than the points in it."""
_LOCAL_TEXTS = 32
"""In a call of the local embedder, for each batch at once, a third of a second.

Who is queried waits for one call; fewer are less alike.
"""
_FIRST_WAIT_S, _LONGEST_WAIT_S, _LONGEST_PATIENCE_S = 0.2, 30.0, 300.0
_PASSING = frozenset({Reason.ERROR_REASON_EMBEDDER_UNAVAILABLE, Reason.ERROR_REASON_INDEX_UNAVAILABLE})


class VectorIndexer:
    """Feeds the backlog from the log and works it off.

    What it does for a message depends only on what the log holds now, so that order does not matter and doing it twice
    does no harm. `run` does the work; the other methods answer at once and belong to the event loop's thread.

    Args:
        open_feed: opens the log's feed for this job alone; called in the job's own thread.
        index: where to.
        embedder: makes the vectors.
        vectors: the directory of all collections; the backlog is kept with its collection, and is this job's alone.
        settings: part lengths, and how often to flush.
        changed: set (on the event loop) when the log has changed. Without it, the log is looked at twice a second.
        faults: where it is noted that the index is damaged.
        shared: what is known of the index where several servers share it.
    """

    def __init__(
        self,
        open_feed: Callable[[], ChangeFeed],
        index: VectorIndex,
        embedder: Embedder,
        vectors: Path,
        settings: Settings,
        changed: asyncio.Event,
        faults: StandingFaults | None = None,
        shared: PostgresSharedIndex | None = None,
    ) -> None:
        self._shared = shared
        self._thread: ThreadPoolExecutor
        self._store: IndexingStore
        self._filler: Filler | None = None
        self._turn = 0
        self._faults = faults or StandingFaults()
        collection = collection_of(settings, vectors, embedder)
        self.collection = collection.name
        self.directory = collection.directory
        self._open_feed = open_feed
        self._index = index
        self._backlog = Backlog(collection.backlog)
        self._embedder = embedder
        self._settings = settings
        self._progress = BacklogReader(collection.backlog)
        self._hot = HotUsers(settings.vector.hot_user_s)
        at_once = documents_at_once(settings.embedder.documents_at_once)
        call_max = {"openai": settings.embedder.batch_max, "local": _LOCAL_TEXTS * at_once}.get(embedder.kind, 1)
        batch_points = _BATCH_POINTS if settings.vector.qdrant_url is None else _SENT_POINTS
        self._take_max = max(batch_points, call_max)
        self._vectors = DocumentVectors(embedder, call_max, call_max + settings.embedder.parts_max)
        self._applier = Applier(index, self._vectors, call_max, batch_points, self._is_interrupted, self._may_write)
        self._changed, self._fed, self._stopping = changed, asyncio.Event(), asyncio.Event()
        self._is_overtaken = False
        self._is_dirty, self._flushed_at = False, time.monotonic()
        self._backoff = Backoff(_FIRST_WAIT_S, _LONGEST_WAIT_S)
        self._fault: JobFault | None = None
        self._to_wipe: asyncio.Future[None] | None = None

    async def behind(self, user_id: str, sequence: int) -> bool:
        """Return whether a change of this user up to a sequence may not be in the index yet."""
        if self._shared is not None:
            return await self._shared.behind(user_id, sequence)
        return self._progress.is_behind(user_id, sequence)

    def look(self) -> None:
        """Have the log looked at now, because somebody waits for what another server may have written."""
        self._changed.set()

    def note_query(self, user_id: str) -> None:
        """Remember that this user is being queried: their backlog goes first, from now on."""
        if self._hot.note(user_id) and self._progress.is_pending(user_id):
            self._is_overtaken = True

    @property
    def fault(self) -> JobFault | None:
        """The error that is being retried; None if all is well."""
        return self._fault

    @property
    def texts_embedded(self) -> int:
        """How many texts have been embedded."""
        return self._vectors.embedded

    async def status(self, user_id: str | None = None, prefix: str = "") -> IndexerStatus:
        """Say how far the index has come, for one user or for all whose ids begin with a prefix."""
        if self._shared is not None:
            return await self._shared.status(user_id, prefix)
        fed = self._progress.fed()  # first: what is fed meanwhile is rather counted twice than never
        counts = self._progress.counts(user_id, prefix)
        parked_ids = () if user_id is None else tuple(self._progress.parked_ids(user_id))
        checkpoint = self._progress.checkpoint()
        return IndexerStatus(fed, checkpoint, counts.pending, counts.parked, parked_ids)

    async def applied(self) -> FeedPosition:
        """Return up to where everything has been applied or parked."""
        if self._shared is not None:
            return await self._shared.checkpoint()
        return self._progress.checkpoint()

    async def wipe_backlog(self) -> None:
        """Have `run` take what the backlog has dropped out of its file; return when that is done. One caller at a time.

        Raises:
            Fault: INDEX_UNAVAILABLE, it was stopped.
        """
        if self._stopping.is_set():
            raise _stopped()
        self._to_wipe = asyncio.get_running_loop().create_future()
        self._fed.set()
        await self._to_wipe

    def stop(self) -> None:
        """Let `run` finish what is in its hands, flush, and return. It cannot be run again."""
        self._stopping.set()
        if self._to_wipe is not None and not self._to_wipe.done():
            self._to_wipe.set_exception(_stopped())
        self._changed.set()
        self._fed.set()

    def close(self) -> None:
        """Close the backlog: no other method may be called any more."""
        self._progress.close()
        self._backlog.close()

    async def run(self) -> None:
        """Work until `stop`. Whatever unexpected it raises, nothing is lost, and it can be run again."""
        with ThreadPoolExecutor(1, "vector-store") as self._thread:
            self._store = await self._in_store_thread(self._open_store)
            upkeep = self._upkeep()
            try:
                async with asyncio.TaskGroup() as tasks:
                    kept_whole = tasks.create_task(upkeep.run())
                    tasks.create_task(self._feed())
                    if self._shared is not None:
                        self._filler = self._filler_of(self._shared)
                        tasks.create_task(self._filler.run())
                    tasks.create_task(self._work(upkeep)).add_done_callback(lambda _: kept_whole.cancel())
            except ExceptionGroup as failures:
                raise failures.exceptions[0] from None  # one failed; the other was cancelled for it
            finally:
                await self._in_store_thread(self._store.close)

    def _open_store(self) -> IndexingStore:
        settings = self._settings.embedder
        cut = partial(parts_of, part_chars=settings.part_chars, parts_max=settings.parts_max)
        return IndexingStore(
            self._open_feed(),
            self._backlog,
            self._embedder.dimension,
            None if self._embedder.kind == "none" else cut,
            is_shared=self._shared is not None,
        )

    async def _in_store_thread(self, job: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, job)

    async def _feed(self) -> None:
        """Take in the feed, with a pause as long as the work, so that the rest of the process can breathe."""
        while not self._stopping.is_set():
            self._changed.clear()
            began_at = time.monotonic()
            has_more = await self._in_store_thread(self._store.feed)
            self._fed.set()
            if has_more:
                await asyncio.sleep(time.monotonic() - began_at)
            else:
                await _wait(self._changed, _POLL_S)
                await _wait(self._stopping, _GATHER_S)

    def _filler_of(self, shared: PostgresSharedIndex) -> Filler:
        return Filler(
            shared.filler_lock(),
            self._store,
            self._in_store_thread,
            self._index,
            self._hot.users,
            self._note_queried_elsewhere,
            self._changed.set,
        )

    def _note_queried_elsewhere(self, user_id: str) -> None:
        self.note_query(user_id)
        self.look()

    def _may_write(self) -> bool:
        """Return whether what is in hand may be written: it was taken in this turn of filling, which lasts."""
        filler = self._filler
        return self._shared is None or (filler is not None and filler.may_write and filler.turns == self._turn)

    def _upkeep(self) -> Upkeep:
        expected = self._store.expected_points(self._settings.embedder.part_chars)
        return Upkeep(
            self._index, self._store, self._in_store_thread, self._progress, expected, self._faults, self._fed.set
        )

    async def _work(self, upkeep: Upkeep) -> None:
        """Work off the backlog; wait where there is nothing to do, and longer and longer while something fails."""
        has_looked = False
        while not self._stopping.is_set():
            try:
                if not has_looked:
                    await upkeep.look()
                    has_looked = True
                self._fed.clear()
                is_busy = await self._work_once()
                if time.monotonic() - self._flushed_at >= self._settings.vector.flush_s:
                    await self._flush()
                await self._wipe_if_asked()
            except Fault as fault:
                await self._back_off(fault)
                with suppress(Fault):  # without the engine it waits
                    await self._wipe_if_asked()
                continue
            self._fault = None
            self._backoff.reset()
            if not is_busy:
                await _wait(self._fed, _POLL_S)
        with suppress(Fault):  # what is not flushed now is done again after the next start
            await self._flush()
        if self._filler is not None:
            self._filler.stop()  # now that nothing is being written

    async def _work_once(self) -> bool:
        """Do one batch; False if there is nothing to do."""
        self._is_overtaken = False
        self._turn = self._filler.turns if self._filler is not None else 0
        if not self._may_write():
            return False
        work = await self._in_store_thread(partial(self._store.next_work, self._hot.users(), self._take_max))
        if not work:
            return False
        batch, fault = await self._applier.apply(work)
        self._is_dirty = True
        await self._in_store_thread(partial(self._store.settle, batch.parts, batch.refused))
        if self._filler is not None:
            self._filler.note_progress()
        if fault is not None:
            raise fault
        return True

    async def _flush(self) -> None:
        if self._is_dirty:
            await self._index.flush()
            await self._in_store_thread(self._backlog.forget_applied)
            self._is_dirty = False
        self._flushed_at = time.monotonic()

    async def _wipe_if_asked(self) -> None:
        asked = self._to_wipe
        if asked is not None and not asked.done():
            await self._flush()
            await self._in_store_thread(self._backlog.wipe_removed)
            if not asked.done():
                asked.set_result(None)

    async def _back_off(self, fault: Fault) -> None:
        """Wait before the next try, as long as the provider asks for or a little longer each time."""
        if fault.reason not in _PASSING:
            raise fault
        kind, now_s = Reason.Name(fault.reason), time.time()
        self._fault = JobFault(kind, self._fault.since_s if self._fault else now_s, now_s)
        wait_s = self._backoff.next_s()
        if not is_about_texts(fault):
            wait_s = max(wait_s, min(fault.retry_after_s or 0.0, _LONGEST_PATIENCE_S))
        await _wait(self._stopping, wait_s)

    def _is_interrupted(self) -> bool:
        return self._is_overtaken or self._stopping.is_set()


def _stopped() -> Fault:
    return Fault(Reason.ERROR_REASON_INDEX_UNAVAILABLE, "the vector indexer was stopped")


async def _wait(event: asyncio.Event, longest_s: float) -> None:
    try:
        async with asyncio.timeout(longest_s):
            await event.wait()
    except TimeoutError:
        return
