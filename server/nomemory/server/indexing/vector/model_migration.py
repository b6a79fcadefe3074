"""Migrate to another embedding model: its index is filled while the former one serves, then takes its place."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from nomemory.server.indexing.vector.collection_cleanup import CollectionCleanup
from nomemory.server.indexing.vector.indexed_spaces import IndexedSpace, IndexedSpaces
from nomemory.server.runtime.structured_logs import get_logger
from nomemory.server.search.semantic.active_index import ActiveSpace
from nomemory.server.store.feed_position import FeedPosition

_log = get_logger("vectors")

_POLL_S: Final = 0.25
_POLL_FAILING_S: Final = 5.0
"""Time between two looks at an index that is complete, but useless."""
_TOLERATED_DEAD_LETTERS: Final = 3
_USELESS: Final = (
    "the model {next} cannot embed many messages: searches by meaning go on with {model}. See the model and its "
    "settings"
)
_FORMER_FAILS: Final = (
    "the model {former} does not answer any more: searches by meaning answer with {model}, from what has been indexed "
    "with it so far"
)


@dataclass
class ModelMigration:
    """Switches to the next space when its index is complete, or when the active model has failed for too long.

    Collections that are no longer used are deleted when the active index is complete. A crash loses nothing: the next
    space is recorded on disk before reads are switched, and each collection knows how far it is.

    Attributes:
        spaces: the active space and the next one.
        serving: the space that reads use.
        cleanup: deletes unused collections at the end.
        log_end: the end of the message log when the server started, which an index has to reach.
        max_failing_s: how long the active model may fail while there is a next one.
        max_read_s: how long to wait for reads that use the former space.
    """

    spaces: IndexedSpaces
    serving: ActiveSpace
    cleanup: CollectionCleanup
    log_end: FeedPosition
    max_failing_s: float
    max_read_s: float
    _dead_letters_before: int = field(default=0, init=False)

    async def run(self) -> None:
        """Work until the migration is over. After an error it can be run again."""
        if self.spaces.next is not None:
            await self._switch(self.spaces.next, await self._wait_for(self.spaces.next))
        self.spaces.active.record()
        await self._close_former()
        while not await self._is_complete(self.spaces.active):  # noqa: ASYNC110 - what is waited for is a state on disk
            await asyncio.sleep(_POLL_S)
        while not await self._has_few_failures(self.spaces.active):  # noqa: ASYNC110 - as above
            await asyncio.sleep(_POLL_FAILING_S)
        self.spaces.migration_notice = ""
        await self.cleanup.delete()

    async def _wait_for(self, space: IndexedSpace) -> str:
        """Wait until it is time to switch to a space; return a notice for the operator, empty if all is well."""
        model, former = space.space.embedder.model, self.spaces.active.space.embedder.model
        self._dead_letters_before = (await self.spaces.active.indexer.status()).dead_letters
        while True:
            is_complete = await self._is_complete(space)
            if is_complete and await self._has_few_failures(space) and await self._has_points(space):
                return ""
            if self.spaces.active.failing_s() >= self.max_failing_s and await self._has_points(space):
                return _FORMER_FAILS.format(former=former, model=model)
            if is_complete:
                self.spaces.migration_notice = _USELESS.format(next=model, model=former)
            await asyncio.sleep(_POLL_FAILING_S if is_complete else _POLL_S)

    async def _has_few_failures(self, space: IndexedSpace) -> bool:
        """Return whether a complete index has acceptably few dead letters, or few more than the one before it."""
        more = (await space.indexer.status()).dead_letters - self._dead_letters_before
        return more <= _TOLERATED_DEAD_LETTERS or more <= await space.index.count() // 4

    async def _has_points(self, space: IndexedSpace) -> bool:
        """Return whether an index has points, unless the active one has none either."""
        return await space.index.count() > 0 or await self.spaces.active.index.count() == 0

    async def _is_complete(self, space: IndexedSpace) -> bool:
        """Return whether an index has all that the log had at the start, and all that the active index has."""
        needed = self.log_end.merged(await self.spaces.active.indexer.applied())
        return (await space.indexer.applied()).has(needed)

    async def _switch(self, space: IndexedSpace, notice: str) -> None:
        space.record()
        former = self.spaces.active
        self.spaces.promote(space, notice)
        log = _log.warning if notice else _log.info
        log("searches by meaning have changed the model", former=former.space.name, now=space.space.name)
        await self.serving.replace(space.space, self.max_read_s)

    async def _close_former(self) -> None:
        """Close the space that was replaced, now that no read uses it."""
        former = self.spaces.former
        if former is not None:
            await former.close()
            self.spaces.former = None
