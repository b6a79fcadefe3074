"""The vector index embedded in this program: shards of Qdrant Edge, which share the users among them.

When it has grown it is spread over more of them. The shards in use go on serving. Points are read from them and stored
in new ones, piece by piece; what is written meanwhile goes to both. Nothing is embedded again.

Each shard has a process, because the engine's calls hold the interpreter's lock, and because damage then costs one.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import Fault, index_unavailable
from nomemory.server.message import Filter
from nomemory.server.standing_faults import VECTOR_ENGINE
from nomemory.server.structured_logs import get_logger
from nomemory.server.vector.edge.calls import WholePoint
from nomemory.server.vector.edge.files import SET_ASIDE_BYTES, bytes_of, demand_room, size_of
from nomemory.server.vector.edge.index import EdgeIndex
from nomemory.server.vector.edge.layout import SHARDS_MAX, ShardLayout, shard_of
from nomemory.server.vector.points import USER, usable_points
from nomemory.server.vector.protocol import MessageKey, NoRoomError, StoredPoints, VectorHit, VectorPoint

_T = TypeVar("_T")

OpenShard = Callable[..., EdgeIndex]
"""Opens the shard of a directory. `part` is what its process is called in faults. Nothing is started yet."""


class ShardSet:
    """Some shards. Each user's points are in one of them.

    Attributes:
        shards: by number.
    """

    def __init__(self, shards: Sequence[EdgeIndex]) -> None:
        self.shards = shards

    def __len__(self) -> int:
        """Return how many they are."""
        return len(self.shards)

    def of(self, user_id: str) -> EdgeIndex:
        """Return the shard with a user's points."""
        return self.shards[shard_of(user_id, len(self.shards))]

    def by_shard(self, items: Iterable[_T], user_of: Callable[[_T], str]) -> dict[EdgeIndex, list[_T]]:
        """Group what belongs to users by their shard; each group in the order of the items."""
        groups: dict[EdgeIndex, list[_T]] = defaultdict(list)
        for item in items:
            groups[self.of(user_of(item))].append(item)
        return groups

    async def store(self, usable: Sequence[VectorPoint]) -> None:
        """Store points whose vectors have length one."""
        groups = self.by_shard(usable, lambda point: point.user_id)
        await asyncio.gather(*(shard.store(points) for shard, points in groups.items()))

    async def store_whole(self, points: Sequence[WholePoint]) -> None:
        """Store points as they were read from other shards."""
        groups = self.by_shard(points, lambda point: str(point.payload[USER]))
        await asyncio.gather(*(shard.store_whole(whole) for shard, whole in groups.items()))

    async def flush(self) -> None:
        """Make everything that was stored survive a power cut."""
        await asyncio.gather(*(shard.flush() for shard in self.shards))

    async def count(self, *, exact: bool) -> int:
        """Count the points."""
        return sum(await asyncio.gather(*(shard.count(exact=exact) for shard in self.shards)))

    async def close(self) -> None:
        """Flush, and end the workers."""
        await asyncio.gather(*(shard.close() for shard in self.shards))

    async def abandon(self) -> None:
        """End the workers at once: their files are of no use to anybody."""
        await asyncio.gather(*(shard.abandon() for shard in self.shards))


_PIECE_MAX = 256
"""Most points that are copied at once: searches wait no longer than that."""

_log = get_logger("vectors")


class EdgeShards:
    """Implements `VectorIndex`.

    The index begins as one shard. It can be spread over others while it serves: when all points are there, they take
    the place of the former ones.

    Args:
        first: the directory of the first shard; those of later ones are beside it.
        dimension: how many numbers a vector has.
        open_shard: opens a shard.
        free_bytes_min: what a spreading leaves free on the disk.
    """

    def __init__(self, first: Path, dimension: int, open_shard: OpenShard, free_bytes_min: int = 0) -> None:
        self._layout = ShardLayout(first)
        self._free_bytes_min = free_bytes_min
        self._dimension = dimension
        self._open_shard = open_shard
        self.suspect = asyncio.Event()
        self._used = self._opened(self._layout.used())
        self._share_suspicion()
        self._next: ShardSet | None = None
        self._failing: set[EdgeIndex] = set()
        self._writing, self._rearranging = asyncio.Lock(), asyncio.Lock()

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return len(self._used)

    @property
    def process_ids(self) -> list[int]:
        """The processes of the engine that run."""
        return [shard.process_id for shard in self._used.shards if shard.process_id is not None]

    async def upsert(self, points: Sequence[VectorPoint]) -> None:
        """Store points; a point with the same user, message and part is overwritten."""
        usable = usable_points(points, self._dimension)
        await self._write(lambda shards: shards.store(usable))

    async def remove(self, user_id: str, message_id: str, *, from_part: int = 0) -> None:
        """Remove the points of a message from a part on."""
        await self._write(lambda shards: shards.of(user_id).remove(user_id, message_id, from_part=from_part))

    async def exceeding(self, parts: Mapping[MessageKey, int]) -> Collection[MessageKey]:
        """Return all: to ask takes as long as to remove."""
        return parts.keys()

    async def search(self, user_id: str, vector: Vector, narrowed: Filter, limit: int) -> list[VectorHit]:
        """Return the nearest messages."""
        return await self._read(user_id, lambda shard: shard.search(user_id, vector, narrowed, limit))

    async def stored(self, user_id: str, message_id: str, sequence: int) -> list[Vector]:
        """Return the vectors that are stored of a version of a message."""
        return await self._read(user_id, lambda shard: shard.stored(user_id, message_id, sequence))

    async def vectors(self, user_id: str, message_ids: Sequence[str]) -> dict[str, Vector]:
        """Return the stored vectors of messages' first parts."""
        return await self._read(user_id, lambda shard: shard.vectors(user_id, message_ids))

    async def remove_versions(self, user_id: str, sequences: Sequence[int]) -> None:
        """Remove the points of versions of a user's messages."""
        await self._write(lambda shards: shards.of(user_id).remove_versions(user_id, sequences))

    async def users(self) -> set[str]:
        """Return the users of whom there are points; perhaps some more, of whom there were."""
        return set().union(*await asyncio.gather(*(shard.users() for shard in self._used.shards)))

    async def drop(self, collection: str) -> None:
        """Do nothing: another collection is another directory."""

    async def flush(self) -> None:
        """Make everything that was stored survive a power cut."""
        await self._used.flush()

    async def wipe_removed(self) -> None:
        """Copy what lives to as many new shards: the files of those before have what was removed, too."""
        if self._has_files():
            await self.spread()

    async def count(self) -> int:
        """Count the points."""
        return await self._used.count(exact=True)

    async def size(self) -> int:
        """Return about how many points there are. No process is started for an index that has none."""
        return await self._used.count(exact=False) if self._has_files() else 0

    async def read_points(self, user_ids: Sequence[str], *, with_vectors: bool) -> StoredPoints:
        """Read what is stored of users, shard by shard."""
        by_user: dict[str, Counter[int]] = {}
        unsound = 0
        for shard, users in self._used.by_shard(user_ids, str).items():
            read = await self._looked_at(shard, users, with_vectors=with_vectors)
            by_user.update(zip(users, read.by_user, strict=True))
            unsound += read.unsound
        return StoredPoints([by_user[user_id] for user_id in user_ids], unsound)

    async def give_up(self) -> None:
        """Have the shards that cannot be read begin with nothing; if there is none of that kind, all of them."""
        self._next = None  # it may have been filled with what is damaged; whoever fills it notices
        used = set(self._used.shards)
        for shard in self._failing & used or used:  # one that failed may be gone since
            await shard.give_up()
        self._failing.clear()

    async def probe(self) -> None:
        """Do nothing: the engine's processes are watched as every worker is."""

    async def close(self) -> None:
        """Flush, and end the workers."""
        await self._used.close()

    def tidy(self) -> None:
        """Delete the files of shards that are not in use. Only the one server of the data directory may do so."""
        self._layout.tidy()

    async def spread(self, shards: int = 0) -> None:
        """Spread the points over so many shards, with pauses for other calls. 0: as many as there are.

        Raises:
            Fault: INDEX_UNAVAILABLE if the engine does not answer, or a write did not reach the new shards. Everything
                is as it was.
            NoRoomError: there is no room for it on the disk.
        """
        async with self._rearranging:
            began_at, shards = time.monotonic(), shards or self.shards
            await asyncio.to_thread(self._layout.tidy)
            await asyncio.to_thread(self._demand_room)
            filled = self._opened(await asyncio.to_thread(self._layout.begin, shards))
            try:
                await self._fill(filled)
                former = await self._switch(filled)
            except BaseException:
                self._next = None
                await filled.abandon()
                await asyncio.to_thread(self._layout.tidy)
                raise
            await former.close()
            await asyncio.to_thread(self._layout.tidy)
            took_s = round(time.monotonic() - began_at, 3)
            _log.info("the vector index was spread over shards", shards=shards, before=len(former), took_s=took_s)

    def _has_files(self) -> bool:
        return any(path.exists() for path in self._layout.used())

    def _demand_room(self) -> None:
        used = self._layout.used()
        demand_room(used[0], sum(map(size_of, used)) + SET_ASIDE_BYTES, self._free_bytes_min)

    def _demand_room_for_piece(self) -> None:
        demand_room(self._layout.used()[0], bytes_of(_PIECE_MAX, self._dimension), self._free_bytes_min)

    async def _fill(self, filled: ShardSet) -> None:
        async with self._writing:  # what was begun before this is in the shards that are read
            self._next = filled
        for shard in self._used.shards:
            offset, has_more = None, True
            while has_more:
                began_at = time.monotonic()
                await asyncio.to_thread(self._demand_room_for_piece)
                async with self._writing:
                    self._demand(filled)
                    read = await shard.read_whole(offset, _PIECE_MAX)
                    await filled.store_whole(read.points)
                offset, has_more = read.offset, read.offset is not None
                await asyncio.sleep(time.monotonic() - began_at)
        await filled.flush()

    async def _switch(self, filled: ShardSet) -> ShardSet:
        """Use the shards that are filled; return the former ones."""
        async with self._writing:
            self._demand(filled)
            await filled.flush()
            self._demand(filled)
            self._layout.complete(len(filled))
            former, self._used, self._next = self._used, filled, None
            self._failing.clear()
            self._share_suspicion()
            for shard in former.shards:
                shard.suspect = asyncio.Event()  # nobody minds its end
            self.suspect.set()  # have the new ones compared with the log
        return former

    def _demand(self, filled: ShardSet) -> None:
        """Raise a fault if something is missing in the shards that are being filled."""
        if self._next is not filled:
            raise index_unavailable("a write did not reach the new shards of the vector index")

    async def _write(self, write: Callable[[ShardSet], Awaitable[None]]) -> None:
        """Write to the shards, and to those that are being filled. If these fail it is they that are given up."""
        async with self._writing:
            with self._spreading_given_up():
                await write(self._used)
            if self._next is not None:
                with suppress(Fault), self._spreading_given_up():
                    await write(self._next)

    @contextmanager
    def _spreading_given_up(self) -> Iterator[None]:
        """Give the spreading up if a write fails or is cancelled: it may have reached some shards only."""
        try:
            yield
        except BaseException:
            self._next = None
            raise

    async def _read(self, user_id: str, read: Callable[[EdgeIndex], Awaitable[_T]]) -> _T:
        """Read a user's shard; once more if another has taken its place meanwhile."""
        shard = self._used.of(user_id)
        try:
            return await read(shard)
        except Fault:
            if self._used.of(user_id) is shard:
                raise
            return await read(self._used.of(user_id))

    async def _looked_at(self, shard: EdgeIndex, users: Sequence[str], *, with_vectors: bool) -> StoredPoints:
        try:
            read = await shard.read_points(users, with_vectors=with_vectors)
        except Fault:
            self._failing.add(shard)
            raise
        self._failing.discard(shard)
        return read

    def _opened(self, directories: Sequence[Path]) -> ShardSet:
        names = [VECTOR_ENGINE] if len(directories) == 1 else [f"{VECTOR_ENGINE}-{n}" for n in range(len(directories))]
        return ShardSet([self._open_shard(path, part=part) for path, part in zip(directories, names, strict=True)])

    def _share_suspicion(self) -> None:
        for shard in self._used.shards:
            shard.suspect = self.suspect


_LOOK_S = 60.0
_ROOM = 1.5
"""New shards can grow by this before the index is spread again."""


def shards_for(points: int, shards: int, points_max: int) -> int:
    """Return how many shards an index should have: as many as it has, unless these hold too many points."""
    return shards if points <= shards * points_max else min(SHARDS_MAX, math.ceil(_ROOM * points / points_max))


class Growth:
    """Looks at the size of the index now and then.

    Args:
        index: the index.
        points_max: how many points a shard may hold, on the average.
    """

    def __init__(self, index: EdgeShards, points_max: int) -> None:
        self._index = index
        self._points_max = points_max

    async def run(self) -> None:
        """Work until it is cancelled. What does not work is tried again at the next look."""
        await asyncio.to_thread(self._index.tidy)
        while True:
            try:
                await self._look()
            except (Fault, NoRoomError) as error:
                _log.warning("the vector index could not be spread over more shards", cause=type(error).__name__)
            await asyncio.sleep(_LOOK_S)

    async def _look(self) -> None:
        wanted = shards_for(await self._index.size(), self._index.shards, self._points_max)
        if wanted > self._index.shards:
            await self._index.spread(wanted)
