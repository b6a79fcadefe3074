"""A change of the model: another index is filled, and then takes the place of the one that serves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from nomemory.server.log.position import FeedPosition
from nomemory.server.structured_logs import get_logger
from nomemory.server.vector.indexed_space import IndexedSpace, SpacesInUse
from nomemory.server.vector.serving_space import ServingSpace
from nomemory.server.vector.space import VectorSpace
from nomemory.server.vector.unused_collections import UnusedCollections

_log = get_logger("vectors")

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


class ModelChange:
    """Switches when the coming index has everything, or when the model that serves has failed for too long.

    What is no longer used is deleted when the index that serves has everything. A crash loses nothing: what serves is
    written down before reads are switched, and each collection knows how far it is.

    Args:
        spaces: what serves, and what is coming.
        serving: what reads are given.
        unused: what is to be deleted in the end.
        until: how far an index has to have come.
        patience_s: how long the model that serves may fail while another one is coming.
        read_s: how long a read may last that has begun before the switch.
        announce: has the readers in other processes follow.
    """

    def __init__(
        self,
        spaces: SpacesInUse,
        serving: ServingSpace,
        unused: UnusedCollections,
        until: FeedPosition,
        patience_s: float,
        read_s: float,
        announce: Callable[[VectorSpace], Awaitable[None]],
    ) -> None:
        self._spaces = spaces
        self._serving = serving
        self._unused = unused
        self._until = until
        self._patience_s = patience_s
        self._read_s = read_s
        self._announce = announce
        self._parked_before = 0

    async def run(self) -> None:
        """Work until the change is over. Whatever it raises, it can be run again."""
        if self._spaces.coming is not None:
            await self._switch(self._spaces.coming, await self._reason_to_switch(self._spaces.coming))
        self._spaces.serving.remember()
        await self._retire()
        while not await self._is_filled(self._spaces.serving):  # noqa: ASYNC110 - what is waited for is a state on disk
            await asyncio.sleep(_LOOK_S)
        while not await self._embeds_most(self._spaces.serving):  # noqa: ASYNC110 - as above
            await asyncio.sleep(_LOOK_AGAIN_S)
        self._spaces.change_notice = ""
        await self._unused.delete()

    async def _reason_to_switch(self, coming: IndexedSpace) -> str:
        """Wait for it; return what there is to say about it, which is nothing if all is well."""
        model, former = coming.space.embedder.model, self._spaces.serving.space.embedder.model
        self._parked_before = (await self._spaces.serving.indexer.status()).parked
        while not (is_filled := await self._is_filled(coming)) or not await self._is_worth_having(coming):
            if self._spaces.serving.failing_s() >= self._patience_s and await self._has_points(coming):
                return _WITHOUT_FORMER.format(former=former, model=model)
            if is_filled:
                self._spaces.change_notice = _WORTHLESS.format(coming=model, model=former)
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
        return await coming.index.count() > 0 or await self._spaces.serving.index.count() == 0

    async def _is_filled(self, one: IndexedSpace) -> bool:
        """Return whether an index has all that the log had at the start, and what serves has nothing beyond it."""
        return (await one.indexer.applied()).has(self._until.merged(await self._spaces.serving.indexer.applied()))

    async def _switch(self, coming: IndexedSpace, notice: str) -> None:
        coming.remember()
        former = self._spaces.serving
        self._spaces.advance(coming, notice)
        say = _log.warning if notice else _log.info
        say("searches by meaning have changed the model", former=former.space.name, now=coming.space.name)
        await asyncio.gather(self._serving.replace(coming.space, self._read_s), self._announce(coming.space))

    async def _retire(self) -> None:
        """Close what was replaced, now that no read uses it."""
        former = self._spaces.former
        if former is not None:
            self._serving.forget_former()
            await former.close()
            self._spaces.former = None
