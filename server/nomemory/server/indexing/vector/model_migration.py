"""Migrate to another embedding model: fill its index in the background, then switch reads to it."""

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
"""Polling interval for a complete index that has too many failures."""
_TOLERATED_DEAD_LETTERS: Final = 3
_USELESS: Final = (
    "the model {next} cannot embed many messages, so semantic search continues with {model}. Check the model and its "
    "settings"
)
_PREVIOUS_FAILS: Final = (
    "the model {previous} is unavailable, so semantic search uses {model}, with the messages that it has indexed so far"
)


@dataclass
class ModelMigration:
    """Switches reads to the next model when its index is complete, or when the active model fails for too long.

    Unused collections are deleted when the active index is complete. A migration resumes after a crash, because the
    next model is recorded on disk before reads are switched, and each collection has its own checkpoint.

    Attributes:
        serving: the vector space that reads currently use.
        log_end: the end of the message log at startup, which an index has to reach.
        max_failing_s: maximum time in seconds that the active model may fail before reads are switched.
        max_read_s: maximum time in seconds to wait for reads that use the previous space.
    """

    spaces: IndexedSpaces
    serving: ActiveSpace
    cleanup: CollectionCleanup
    log_end: FeedPosition
    max_failing_s: float
    max_read_s: float
    _dead_letters_before: int = field(default=0, init=False)

    async def run(self) -> None:
        """Run until the migration is complete. `run` can be called again after an error."""
        if self.spaces.next is not None:
            await self._switch_model(self.spaces.next, await self._wait_until_ready(self.spaces.next))
        self.spaces.active.record()
        await self._close_previous()
        while not await self._is_complete(self.spaces.active):  # noqa: ASYNC110 - a state on disk
            await asyncio.sleep(_POLL_S)
        while not await self._has_few_failures(self.spaces.active):  # noqa: ASYNC110 - as above
            await asyncio.sleep(_POLL_FAILING_S)
        self.spaces.migration_notice = ""
        await self.cleanup.delete_unused_collections()

    async def _wait_until_ready(self, space: IndexedSpace) -> str:
        """Wait until reads can switch to a space. Return a warning for the operator, empty if the index is complete."""
        model, previous = space.space.embedder.model, self.spaces.active.space.embedder.model
        self._dead_letters_before = (await self.spaces.active.indexer.status()).dead_letters
        while True:
            is_complete = await self._is_complete(space)
            if is_complete and await self._has_few_failures(space) and await self._has_points(space):
                return ""
            if self.spaces.active.failing_s() >= self.max_failing_s and await self._has_points(space):
                return _PREVIOUS_FAILS.format(previous=previous, model=model)
            if is_complete:
                self.spaces.migration_notice = _USELESS.format(next=model, model=previous)
            await asyncio.sleep(_POLL_FAILING_S if is_complete else _POLL_S)

    async def _has_few_failures(self, space: IndexedSpace) -> bool:
        """Return whether an index has acceptably few dead letters, compared with the active index."""
        more = (await space.indexer.status()).dead_letters - self._dead_letters_before
        return more <= _TOLERATED_DEAD_LETTERS or more <= await space.index.count() // 4

    async def _has_points(self, space: IndexedSpace) -> bool:
        """Return whether an index has points. An empty index is accepted if the active index is also empty."""
        return await space.index.count() > 0 or await self.spaces.active.index.count() == 0

    async def _is_complete(self, space: IndexedSpace) -> bool:
        """Return whether an index has reached the message log's end at startup and the active index's checkpoint."""
        needed = self.log_end.maximum(await self.spaces.active.indexer.read_checkpoint())
        return (await space.indexer.read_checkpoint()).is_at_or_after(needed)

    async def _switch_model(self, space: IndexedSpace, notice: str) -> None:
        space.record()
        previous = self.spaces.active
        self.spaces.activate(space, notice)
        log = _log.warning if notice else _log.info
        log("semantic search switched to another model", previous=previous.space.name, now=space.space.name)
        await self.serving.replace(space.space, self.max_read_s)

    async def _close_previous(self) -> None:
        """Close the previous space after its last read."""
        previous = self.spaces.previous
        if previous is not None:
            await previous.close()
            self.spaces.previous = None
