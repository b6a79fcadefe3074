"""A look at the collection on a Qdrant server, without a server of ours."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from nomemory.server.embedding.factory import choose_embedder
from nomemory.server.settings import Settings
from nomemory.server.vector.collection import name_of


@dataclass(frozen=True, slots=True)
class CollectionState:
    """What a collection has.

    Attributes:
        name: what it is called there.
        points: how many there are.
        lacking: the fields whose index does not know all of them, so that searches miss messages.
    """

    name: str
    points: int
    lacking: tuple[str, ...]


async def look_at_collection(settings: Settings, url: str) -> CollectionState | None:
    """Look at the collection of the settings' embedder; None if there is none yet.

    Raises:
        Fault: INDEX_UNAVAILABLE, the server does not answer.
        EmbedderSettingsError: the settings do not describe an embedder.
    """
    from nomemory.server.vector.collection import QdrantLayout  # noqa: PLC0415
    from nomemory.server.vector.qdrant.collection import QdrantCollection  # noqa: PLC0415 - its client is large
    from nomemory.server.vector.qdrant.index import connect  # noqa: PLC0415

    async with AsyncExitStack() as stack:
        embedder = choose_embedder(settings)
        stack.push_async_callback(embedder.close)
        key = settings.vector.qdrant_api_key
        client = connect(url, key.get_secret_value() if key else None, settings.vector.probe_s)
        stack.push_async_callback(client.close)
        name = name_of(settings, Path(), embedder)
        collection = QdrantCollection(client, name, embedder.dimension, QdrantLayout.of(settings))
        if not await collection.exists():
            return None
        points, lacking = await collection.lacking()
        return CollectionState(name, points, tuple(lacking))
