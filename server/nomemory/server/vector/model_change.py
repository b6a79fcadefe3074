"""A change of the model: another index is filled, then takes the place of the one that serves, which is deleted."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from nomemory.server.faults import Fault
from nomemory.server.log.position import FeedPosition
from nomemory.server.processes.supervisor import JobFault
from nomemory.server.settings import Settings
from nomemory.server.structured_logs import get_logger
from nomemory.server.vector.collection import name_on_server, other_collections
from nomemory.server.vector.indexing.indexer import VectorIndexer
from nomemory.server.vector.protocol import VectorIndex
from nomemory.server.vector.qdrant.reachability import ForeignCollectionError
from nomemory.server.vector.space import ServingSpace, VectorSpace

if TYPE_CHECKING:
    from nomemory.server.vector.shared.postgres_index import PostgresSharedIndex


@dataclass(frozen=True, slots=True)
class IndexedSpace:
    """A space, and what fills its index.

    Attributes:
        space: what reads see of it.
        index: the engine.
        indexer: its background work.
        job_fault: returns the error that this work failed with lately; None if it is healthy.
        parts: what its parts are called in faults.
        failing_s: returns for how long queries have failed with its model, in seconds.
        remember: writes down that this is what serves, for the next start.
        close: ends its work and closes it.
    """

    space: VectorSpace
    index: VectorIndex
    indexer: VectorIndexer
    job_fault: Callable[[], JobFault | None]
    parts: tuple[str, ...]
    failing_s: Callable[[], float]
    remember: Callable[[], None]
    close: Callable[[], Awaitable[None]]


class SpacesInUse:
    """Those that follow the log.

    Args:
        serving: what answers reads.
        coming: what takes its place when its index has everything.
        notice: what happened to the index that serves when the server started, in words.
        change_notice: what there is to say about a change of the model, until it is over.

    Attributes:
        former: what has been replaced, until it is closed.
    """

    def __init__(
        self, serving: IndexedSpace, coming: IndexedSpace | None, notice: str, change_notice: str = ""
    ) -> None:
        self.serving = serving
        self.coming = coming
        self.former: IndexedSpace | None = None
        self._notice = notice
        self.change_notice = change_notice

    @property
    def notice(self) -> str:
        """What there is to say about the index that serves, in words."""
        return self.change_notice or self._notice

    def all(self) -> list[IndexedSpace]:
        """Return them all."""
        return [one for one in (self.serving, self.coming, self.former) if one is not None]

    async def refuse_foreign(self) -> None:
        """Look whether an index is filled from another log, as far as the engines answer.

        Raises:
            ForeignCollectionError: one is.
        """
        for one in self.all():
            try:
                await one.index.probe()
            except ForeignCollectionError:
                raise
            except Fault:
                continue  # it is away: who needs it later is told so

    def advance(self, coming: IndexedSpace, notice: str) -> None:
        """Have the coming one serve."""
        self.serving, self.coming, self.former = coming, None, self.serving
        self._notice, self.change_notice = "", notice


_log = get_logger("vectors")


@dataclass(frozen=True, slots=True)
class UnusedCollections:
    """Deletes them, on disk and on the settings' Qdrant server.

    Attributes:
        settings: say which server.
        vectors: the directory of all collections.
        spaces: what is in use.
        shared_index: returns what is known of an index that other servers use, too, by its name; None: none do.
    """

    settings: Settings
    vectors: Path
    spaces: SpacesInUse
    shared_index: Callable[[str], PostgresSharedIndex | None]

    async def delete(self) -> None:
        """Delete them all, but those that other servers use.

        Raises:
            Fault: INDEX_UNAVAILABLE, the server does not answer; STORAGE_UNAVAILABLE, it is not known who uses them.
        """
        used = {one.indexer.directory for one in self.spaces.all()}
        for unused in other_collections(self.vectors, used):
            name = name_on_server(self.settings, unused)
            if name is not None and not await self._is_abandoned(name):
                continue
            if name is not None:
                await self.spaces.serving.index.drop(name)
            _log.info("a collection of vectors that is not in use is deleted", collection=unused.name)
            await asyncio.to_thread(shutil.rmtree, unused, ignore_errors=True)

    async def _is_abandoned(self, name: str) -> bool:
        shared = self.shared_index(name)
        if shared is None:
            return True
        try:
            return await shared.abandoned()
        finally:
            await shared.close()


_LOOK_S, _LOOK_AGAIN_S = 0.25, 5.0
_FEW_PARKED = 3
"""So many messages that a model cannot embed say nothing against it."""
_WORTHLESS = (
    "the model {coming} cannot embed many messages: searches by meaning go on with {model}. See the model and its "
    "settings"
)
_WITHOUT_FORMER = (
    "the model {former} does not answer any more: searches by meaning answer with {model}, from what has been indexed "
    "with it so far"
)


@dataclass
class ModelChange:
    """Switches when the coming index has everything, or when the model that serves has failed for too long.

    What is no longer used is deleted when the index that serves has everything. A crash loses nothing: what serves is
    written down before reads are switched, and each collection knows how far it is.

    Attributes:
        spaces: what serves, and what is coming.
        serving: what reads are given.
        unused: what is to be deleted in the end.
        until: how far an index has to have come.
        patience_s: how long the model that serves may fail while another one is coming.
        read_s: how long a read may last that has begun before the switch.
    """

    spaces: SpacesInUse
    serving: ServingSpace
    unused: UnusedCollections
    until: FeedPosition
    patience_s: float
    read_s: float
    _parked_before: int = field(default=0, init=False)

    async def run(self) -> None:
        """Work until the change is over. Whatever it raises, it can be run again."""
        if self.spaces.coming is not None:
            await self._switch(self.spaces.coming, await self._reason_to_switch(self.spaces.coming))
        self.spaces.serving.remember()
        await self._retire()
        while not await self._is_filled(self.spaces.serving):  # noqa: ASYNC110 - what is waited for is a state on disk
            await asyncio.sleep(_LOOK_S)
        while not await self._embeds_most(self.spaces.serving):  # noqa: ASYNC110 - as above
            await asyncio.sleep(_LOOK_AGAIN_S)
        self.spaces.change_notice = ""
        await self.unused.delete()

    async def _reason_to_switch(self, coming: IndexedSpace) -> str:
        """Wait for it; return what there is to say about it, which is nothing if all is well."""
        model, former = coming.space.embedder.model, self.spaces.serving.space.embedder.model
        self._parked_before = (await self.spaces.serving.indexer.status()).parked
        while not (is_filled := await self._is_filled(coming)) or not await self._is_worth_having(coming):
            if self.spaces.serving.failing_s() >= self.patience_s and await self._has_points(coming):
                return _WITHOUT_FORMER.format(former=former, model=model)
            if is_filled:
                self.spaces.change_notice = _WORTHLESS.format(coming=model, model=former)
            await asyncio.sleep(_LOOK_AGAIN_S if is_filled else _LOOK_S)
        return ""

    async def _is_worth_having(self, coming: IndexedSpace) -> bool:
        return await self._embeds_most(coming) and await self._has_points(coming)

    async def _embeds_most(self, one: IndexedSpace) -> bool:
        """Return whether few messages are set aside in a filled index, or few more than in the one before it."""
        more = (await one.indexer.status()).parked - self._parked_before
        return more <= _FEW_PARKED or more <= await one.index.count() // 4

    async def _has_points(self, coming: IndexedSpace) -> bool:
        """Return whether there is anything in an index, if there is anything to be in it."""
        return await coming.index.count() > 0 or await self.spaces.serving.index.count() == 0

    async def _is_filled(self, one: IndexedSpace) -> bool:
        """Return whether an index has all that the log had at the start, and what serves has nothing beyond it."""
        return (await one.indexer.applied()).has(self.until.merged(await self.spaces.serving.indexer.applied()))

    async def _switch(self, coming: IndexedSpace, notice: str) -> None:
        coming.remember()
        former = self.spaces.serving
        self.spaces.advance(coming, notice)
        say = _log.warning if notice else _log.info
        say("searches by meaning have changed the model", former=former.space.name, now=coming.space.name)
        await self.serving.replace(coming.space, self.read_s)

    async def _retire(self) -> None:
        """Close what was replaced, now that no read uses it."""
        former = self.spaces.former
        if former is not None:
            await former.close()
            self.spaces.former = None
