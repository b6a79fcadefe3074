"""The collections of vectors that are not in use. They follow nothing, so they may hold what is long deleted."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from nomemory.server.settings import Settings
from nomemory.server.structured_logs import get_logger
from nomemory.server.vector.collection import name_on_server, other_collections
from nomemory.server.vector.indexed_space import SpacesInUse

_log = get_logger("vectors")


class UnusedCollections:
    """Deletes them, on disk and on the settings' Qdrant server.

    Args:
        settings: say which server.
        vectors: the directory of all collections.
        spaces: what is in use.
    """

    def __init__(self, settings: Settings, vectors: Path, spaces: SpacesInUse) -> None:
        self._settings = settings
        self._vectors = vectors
        self._spaces = spaces

    async def delete(self) -> None:
        """Delete them all.

        Raises:
            Fault: INDEX_UNAVAILABLE, the server does not answer.
        """
        used = {one.indexer.directory for one in self._spaces.all()}
        for unused in other_collections(self._vectors, used):
            name = name_on_server(self._settings, unused)
            if name is not None:
                await self._spaces.serving.index.drop(name)
            _log.info("a collection of vectors that is not in use is deleted", collection=unused.name)
            await asyncio.to_thread(shutil.rmtree, unused, ignore_errors=True)
