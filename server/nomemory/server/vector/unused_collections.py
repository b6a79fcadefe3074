"""The collections of vectors that are not in use. They follow nothing, so they may hold what is long deleted."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

from nomemory.server.settings import Settings
from nomemory.server.structured_logs import get_logger
from nomemory.server.vector.collection import name_on_server, other_collections
from nomemory.server.vector.indexed_space import SpacesInUse
from nomemory.server.vector.shared_index import SharedIndex

_log = get_logger("vectors")


def _nobody_else(_name: str) -> None:
    return None


class UnusedCollections:
    """Deletes them, on disk and on the settings' Qdrant server.

    Args:
        settings: say which server.
        vectors: the directory of all collections.
        spaces: what is in use.
        shared_index: returns what is known of an index that other servers use, too, by its name; None: none do.
    """

    def __init__(
        self,
        settings: Settings,
        vectors: Path,
        spaces: SpacesInUse,
        shared_index: Callable[[str], SharedIndex | None] = _nobody_else,
    ) -> None:
        self._shared_index = shared_index
        self._settings = settings
        self._vectors = vectors
        self._spaces = spaces

    async def delete(self) -> None:
        """Delete them all, but those that other servers use.

        Raises:
            Fault: INDEX_UNAVAILABLE, the server does not answer; STORAGE_UNAVAILABLE, it is not known who uses them.
        """
        used = {one.indexer.directory for one in self._spaces.all()}
        for unused in other_collections(self._vectors, used):
            name = name_on_server(self._settings, unused)
            if name is not None and not await self._is_abandoned(name):
                continue
            if name is not None:
                await self._spaces.serving.index.drop(name)
            _log.info("a collection of vectors that is not in use is deleted", collection=unused.name)
            await asyncio.to_thread(shutil.rmtree, unused, ignore_errors=True)

    async def _is_abandoned(self, name: str) -> bool:
        shared = self._shared_index(name)
        if shared is None:
            return True
        try:
            return await shared.abandoned()
        finally:
            await shared.close()
