"""The embedded vector index: a Qdrant Edge shard in a worker process, because calls of the engine hold the GIL."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import starmap
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import build_index_unavailable_fault
from nomemory.server.message_filter import Filter
from nomemory.server.runtime.active_faults import VECTOR_ENGINE
from nomemory.server.runtime.processes.spawn import ProcessLaunch
from nomemory.server.runtime.processes.watchdog import WatchPolicy
from nomemory.server.runtime.processes.worker import Worker
from nomemory.server.runtime.processes.worker_errors import WorkerError, WorkerSlowError
from nomemory.server.search.semantic.edge.disk_space import require_copy_space, require_points_space
from nomemory.server.search.semantic.edge.messages import NearestQuery, ScoredPoint, ShardCall
from nomemory.server.search.semantic.edge.open_attempts import clear_attempts, mark_corrupt
from nomemory.server.search.semantic.edge.shard import Shard
from nomemory.server.search.semantic.filter_conditions import build_filter_conditions
from nomemory.server.search.semantic.message_hits import GROWTH, compute_initial_point_limit, rank_messages
from nomemory.server.search.semantic.normalization import normalize_points, normalize_query
from nomemory.server.search.semantic.protocol import (
    InsufficientSpaceError,
    MessageKey,
    StoredPoints,
    VectorHit,
    VectorPoint,
)

_P = ParamSpec("_P")
_T = TypeVar("_T")

_MAX_UPSERT: Final = 256
"""Points per write call. It limits the time that searches wait for the engine."""
_COMPACTION_PAGE: Final = 256
"""Points per call of a compaction, for the same reason."""


class EdgeIndex:
    """Implements `VectorIndex` with an engine in a worker process.

    Acknowledged writes survive a crash of the worker or of the server. Flushed writes also survive a power failure.

    Args:
        directory: the directory of the shard. Only one process can open the directory at a time.
        timeout_s: the number of seconds without a response after which the worker is restarted.
        policy: the limits of the worker process.
        min_free_bytes: the free disk space that must remain during `erase_deleted`, in bytes.
    """

    def __init__(
        self,
        directory: Path,
        dimension: int,
        timeout_s: float,
        policy: WatchPolicy | None = None,
        *,
        min_free_bytes: int = 0,
    ) -> None:
        self.reconcile_requested = asyncio.Event()
        self._directory = directory
        self._dimension = dimension
        self._min_free_bytes = min_free_bytes
        policy = policy or WatchPolicy()
        arguments = (directory, dimension, policy.memory_max_bytes)
        launch = ProcessLaunch("nomemory.server.search.semantic.edge.worker", tuple(map(str, arguments)))
        self._worker = Worker(launch, timeout_s, VECTOR_ENGINE, policy)

    @property
    def process_id(self) -> int | None:
        """The process id of the worker; None if it is not running."""
        return self._worker.process_id

    async def upsert(self, points: Sequence[VectorPoint]) -> None:
        """Store points. A point with the same user, message and part is overwritten."""
        usable = normalize_points(points, self._dimension)
        for start in range(0, len(usable), _MAX_UPSERT):
            await self._call_shard(Shard.upsert, usable[start : start + _MAX_UPSERT])

    async def remove(self, user_id: str, message_id: str, *, from_part: int = 0) -> None:
        """Remove the points of a message from part `from_part` on."""
        await self._call_shard(Shard.remove, user_id, message_id, from_part)

    async def find_surplus_messages(self, parts: Mapping[MessageKey, int]) -> Collection[MessageKey]:
        """Return all messages, because checking a message costs as much as removing its surplus points."""
        return parts.keys()

    async def remove_versions(self, user_id: str, sequences: Sequence[int]) -> None:
        """Remove the points of versions of a user's messages."""
        while await self._call_shard(Shard.remove_versions, user_id, sequences):
            pass

    async def search(self, user_id: str, vector: Vector, filters: Filter, limit: int) -> list[VectorHit]:
        """Return the most similar messages."""
        usable, conditions_ = normalize_query(vector, self._dimension), build_filter_conditions(user_id, filters)
        window = compute_initial_point_limit(limit)
        while True:
            scored: list[ScoredPoint] = await self._send_request(NearestQuery(usable, conditions_, window))
            hits = rank_messages(list(starmap(VectorHit, scored)), window, filters, limit)
            if hits is not None:
                return hits
            window *= GROWTH

    async def read_vectors(self, user_id: str, message_ids: Sequence[str]) -> dict[str, Vector]:
        """Return the stored vector of the first part of each message."""
        return await self._call_shard(Shard.read_first_vectors, user_id, message_ids)

    async def read_version_vectors(self, user_id: str, message_id: str, sequence: int) -> list[Vector]:
        """Return the stored vectors of a version of a message."""
        return await self._call_shard(Shard.read_version_vectors, user_id, message_id, sequence)

    async def read_points(self, user_ids: Sequence[str], *, with_vectors: bool) -> StoredPoints:
        """Read the points of users page by page, so that searches can run between the pages."""
        by_user, invalid = [Counter[int]() for _ in user_ids], 0
        for user_id, points in zip(user_ids, by_user, strict=True):
            offset, has_more = None, True
            while has_more:
                page = await self._call_shard(Shard.read_user_points, user_id, offset, with_vectors=with_vectors)
                points.update(page.sequences)
                invalid += page.invalid_count
                offset, has_more = page.next_offset, page.next_offset is not None
        return StoredPoints(by_user, invalid)

    async def list_users(self) -> set[str]:
        """Return the users who have points. The result may include users whose points were removed."""
        return await self._call_shard(Shard.list_users)

    async def count(self) -> int:
        """Count the points."""
        return await self._call_shard(Shard.count)

    async def flush(self) -> None:
        """Write all stored points to durable storage."""
        await self._call_shard(Shard.flush)

    async def erase_deleted(self) -> None:
        """Copy the live points to new files, and delete the old files, which contain the content of deleted points."""
        if not self._directory.exists():
            return
        await asyncio.to_thread(require_copy_space, self._directory, self._min_free_bytes)
        await self._call_shard(Shard.start_compaction)
        try:
            await self._compact()
        except InsufficientSpaceError:
            await self._call_shard(Shard.cancel_compaction)
            raise
        self.reconcile_requested.set()  # reconcile the new files with the message log

    async def reset(self) -> None:
        """Mark the shard as corrupt and restart the worker, which then creates an empty shard."""
        mark_corrupt(self._directory)
        self._worker.kill()

    async def drop_collection(self, collection: str) -> None:
        """Do nothing, because each collection has its own directory."""

    async def probe(self) -> None:
        """Do nothing, because the watchdog monitors the worker."""

    async def close(self) -> None:
        """Flush and stop the worker."""
        await self._worker.close()
        clear_attempts(self._directory)

    async def _compact(self) -> None:
        """Copy the points page by page.

        Each pause is as long as copying the previous page took, so that other calls can run.
        """
        has_more = True
        while has_more:
            started = time.monotonic()
            await asyncio.to_thread(
                require_points_space, self._directory, _COMPACTION_PAGE, self._dimension, self._min_free_bytes
            )
            has_more = await self._call_shard(Shard.compact_page, _COMPACTION_PAGE)
            await asyncio.sleep(time.monotonic() - started)

    async def _call_shard(
        self, method: Callable[Concatenate[Shard, _P], _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Call a method of the shard in the worker process."""
        answer: _T = await self._send_request(ShardCall(method.__name__, args, kwargs))
        return answer

    async def _send_request(self, request: ShardCall | NearestQuery) -> Any:  # noqa: ANN401 - as each request says
        """Send a request to the worker.

        Raises:
            Fault: INDEX_UNAVAILABLE: the worker did not respond, or the engine failed.
        """
        try:
            return await self._worker.call(request)
        except WorkerError as error:
            if not isinstance(error, WorkerSlowError):
                self.reconcile_requested.set()
            raise build_index_unavailable_fault(
                "the vector index does not respond: retry later", type(error).__name__
            ) from error
