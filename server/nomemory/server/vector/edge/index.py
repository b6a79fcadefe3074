"""A shard of the vector index embedded in this program: Qdrant Edge, in a worker process of its own."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import starmap
from pathlib import Path
from typing import Any

from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import index_unavailable
from nomemory.server.message import Filter
from nomemory.server.processes.spawn import Launch
from nomemory.server.processes.watchdog import WatchPolicy
from nomemory.server.processes.worker import Worker
from nomemory.server.processes.worker_errors import WorkerError, WorkerSlowError
from nomemory.server.standing_faults import VECTOR_ENGINE
from nomemory.server.vector.edge.calls import Call, NearestPoints, StoredOfUser, WholePoint, WholeRead
from nomemory.server.vector.edge.files import condemn, forgive
from nomemory.server.vector.points import conditions, nearest, usable_points, usable_query
from nomemory.server.vector.protocol import MessageKey, StoredPoints, VectorHit, VectorPoint

_UPSERT_MAX = 256
"""Most points in one call of the engine: searches wait no longer than that."""
_PACK_POINTS = 20_000


class EdgeIndex:
    """Implements `VectorIndex`, but for `wipe_removed`: other shards take the place of those with removed points.

    What was acknowledged survives the death of the worker and of this process; `flush` makes it survive a power cut.

    Args:
        directory: where the shard lives; one process at a time may have it open.
        dimension: how many numbers a vector has.
        timeout_s: how long the engine may be silent before it is killed and started anew.
        policy: how its process is watched.
        part: what its process is called in faults.
        pack_points: how many new points are packed together.
    """

    def __init__(
        self,
        directory: Path,
        dimension: int,
        timeout_s: float,
        policy: WatchPolicy | None = None,
        *,
        part: str = VECTOR_ENGINE,
        pack_points: int = _PACK_POINTS,
    ) -> None:
        self._directory = directory
        self._dimension = dimension
        self.suspect = asyncio.Event()
        policy = policy or WatchPolicy()
        arguments = (directory, dimension, policy.processes.memory_bytes, pack_points)
        launch = Launch("nomemory.server.vector.edge.worker", tuple(map(str, arguments)))
        self._worker = Worker(launch, timeout_s, part, policy)

    @property
    def process_id(self) -> int | None:
        """The process of the engine, if it runs."""
        return self._worker.process_id

    async def upsert(self, points: Sequence[VectorPoint]) -> None:
        """Store points; a point with the same user, message and part is overwritten."""
        await self.store(usable_points(points, self._dimension))

    async def store(self, usable: Sequence[VectorPoint]) -> None:
        """Store points whose vectors have length one."""
        for at in range(0, len(usable), _UPSERT_MAX):
            await self._call("upsert", usable[at : at + _UPSERT_MAX])

    async def read_whole(self, offset: str | None, most: int) -> WholeRead:
        """Read points of all users as they are stored, up to `most`, from an offset on."""
        return WholeRead(*await self._call("read_whole", offset, most))

    async def store_whole(self, points: Sequence[WholePoint]) -> None:
        """Store points as they were read."""
        await self._call("store_whole", points)

    async def remove(self, user_id: str, message_id: str, *, from_part: int = 0) -> None:
        """Remove the points of a message from a part on."""
        await self._call("remove", user_id, message_id, from_part)

    async def exceeding(self, parts: Mapping[MessageKey, int]) -> Collection[MessageKey]:
        """Return all: to ask takes as long as to remove."""
        return parts.keys()

    async def search(self, user_id: str, vector: Vector, narrowed: Filter, limit: int) -> list[VectorHit]:
        """Return the nearest messages."""
        usable = usable_query(vector, self._dimension)

        async def fetch(points_max: int) -> list[VectorHit]:
            scored = await self._ask(NearestPoints(usable, conditions(user_id, narrowed), points_max))
            return list(starmap(VectorHit, scored))

        return await nearest(fetch, narrowed, limit)

    async def stored(self, user_id: str, message_id: str, sequence: int) -> list[Vector]:
        """Return the vectors that are stored of a version of a message."""
        return list(await self._call("vectors", user_id, message_id, sequence))

    async def vectors(self, user_id: str, message_ids: Sequence[str]) -> dict[str, Vector]:
        """Return the stored vectors of messages' first parts."""
        return dict(await self._call("first_vectors", user_id, message_ids))

    async def remove_versions(self, user_id: str, sequences: Sequence[int]) -> None:
        """Remove the points of versions of a user's messages."""
        while await self._call("remove_versions", user_id, sequences):
            pass

    async def users(self) -> set[str]:
        """Return the users of whom there are points; perhaps some more, of whom there were."""
        return set(await self._call("users"))

    async def flush(self) -> None:
        """Make everything that was stored survive a power cut."""
        await self._call("flush")

    async def count(self, *, exact: bool = True) -> int:
        """Count the points."""
        return int(await self._call("count", exact=exact))

    async def read_points(self, user_ids: Sequence[str], *, with_vectors: bool) -> StoredPoints:
        """Read what is stored of users, piece by piece, so that searches are answered in between."""
        by_user, unsound = [Counter[int]() for _ in user_ids], 0
        for user_id, points in zip(user_ids, by_user, strict=True):
            offset, has_more = None, True
            while has_more:
                read: StoredOfUser = await self._call("read_points", user_id, offset, with_vectors=with_vectors)
                points.update(read.sequences)
                unsound += read.unsound
                offset, has_more = read.offset, read.offset is not None
        return StoredPoints(by_user, unsound)

    async def give_up(self) -> None:
        """Have the next process of the engine begin with an empty shard."""
        condemn(self._directory)
        self._worker.end()

    async def abandon(self) -> None:
        """End the worker at once: its files are of no use to anybody."""
        self._worker.end()
        await self._worker.close()

    async def close(self) -> None:
        """Flush, and end the worker."""
        await self._worker.close()
        forgive(self._directory)

    async def _call(self, method: str, *arguments: object, **named: object) -> Any:  # noqa: ANN401 - the method's
        """Have the worker's shard do something."""
        return await self._ask(Call(method, arguments, named))

    async def _ask(self, call: Call | NearestPoints) -> Any:  # noqa: ANN401 - what each call answers is said at the call
        try:
            return await self._worker.call(call)
        except WorkerError as error:
            if not isinstance(error, WorkerSlowError):
                self.suspect.set()
            raise index_unavailable("the vector index does not answer", type(error).__name__) from error
