"""Delete unused vector collections on disk and on the configured Qdrant server."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nomemory.server.indexing.vector.indexed_spaces import IndexedSpaces
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.structured_logs import get_logger
from nomemory.server.search.semantic.collection import find_qdrant_collection, list_unused_collections

if TYPE_CHECKING:
    from nomemory.server.indexing.vector.postgres_index import PostgresSharedIndex

_log = get_logger("vectors")


@dataclass(frozen=True, slots=True)
class CollectionCleanup:
    """Deletes the vector collections of embedding models that are no longer used.

    Attributes:
        spaces: the vector spaces whose collections are kept.
        shared_index: returns the shared index of a collection name, or None if this server does not share indexes.
    """

    settings: Settings
    vectors: Path
    spaces: IndexedSpaces
    shared_index: Callable[[str], PostgresSharedIndex | None]

    async def delete_unused_collections(self) -> None:
        """Delete all unused collections, except those that other servers use.

        Raises:
            Fault: INDEX_UNAVAILABLE, the Qdrant server does not respond; STORAGE_UNAVAILABLE, the database is
                unavailable.
        """
        used = {space.indexer.directory for space in self.spaces.list_spaces()}
        for directory in list_unused_collections(self.vectors, used):
            name = find_qdrant_collection(self.settings, directory)
            if name is not None and not await self._delete_shared_state(name):
                continue
            if name is not None:
                await self.spaces.active.index.drop_collection(name)
            _log.info("deleting an unused vector collection", collection=directory.name)
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    async def _delete_shared_state(self, name: str) -> bool:
        shared = self.shared_index(name)
        if shared is None:
            return True
        try:
            return await shared.delete_unused_state()
        finally:
            await shared.close()
