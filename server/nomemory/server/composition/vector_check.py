"""The check of a data directory that no server uses: does its vector index hold what the log says?

A look at the collection on a Qdrant server, without a server of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from nomemory.server.data_directory import DataDirectory
from nomemory.server.embedding.factory import choose_embedder
from nomemory.server.log.feed import Touched
from nomemory.server.log.sqlite.feed import SqliteChangeFeed
from nomemory.server.settings import Settings
from nomemory.server.vector.collection import collection_of, name_of
from nomemory.server.vector.factory import choose_vector_index
from nomemory.server.vector.indexing.applier import parts_of
from nomemory.server.vector.indexing.backlog import BacklogReader
from nomemory.server.vector.indexing.comparison import Comparison, ExpectedPoints, Findings, Orphan, remove_orphans

_T = TypeVar("_T")


async def check_vector_index(settings: Settings, *, removes_orphans: bool = False) -> Findings | None:
    """Compare the vector index of the settings' data directory with its log, message by message.

    The next start of a server does the same, and mends what is missing or is too much. A running server has its files
    for itself: ask for its status instead, whose `faults` name an index that is being mended.

    Args:
        settings: which data directory, embedder and engine.
        removes_orphans: whether the vectors of messages that are gone are removed. Nothing else is mended.

    Returns:
        What was found before that; None if there is no index of this embedder yet.

    Raises:
        Fault: INDEX_UNAVAILABLE if the index does not answer: a server uses its files, or they are damaged.
        EmbedderSettingsError: the settings do not describe an embedder.
    """
    directory = DataDirectory(settings.server.data)
    async with AsyncExitStack() as stack:
        embedder = choose_embedder(settings)
        stack.push_async_callback(embedder.close)
        collection = collection_of(settings, directory.vectors, embedder)
        if not collection.backlog.exists():
            return None
        log = stack.enter_context(closing(SqliteChangeFeed(directory.log)))
        index = choose_vector_index(settings, directory.vectors, embedder, log_id=log.position().identity.log_id)
        stack.push_async_callback(index.close)
        backlog = stack.enter_context(closing(BacklogReader(collection.backlog)))
        chars, most = settings.embedder.part_chars, settings.embedder.parts_max
        cut = None if embedder.kind == "none" else partial(parts_of, part_chars=chars, parts_max=most)
        expected = ExpectedPoints(log, backlog.known, embedder.dimension, chars, cut)
        clear = partial(remove_orphans, index) if removes_orphans else _mend_nothing
        return await Comparison(index, expected, _here, backlog.fed(), _mend_nothing, clear).run()


async def _here(job: Callable[[], _T], /) -> _T:
    return job()


async def _mend_nothing(_found: Sequence[Touched | Orphan]) -> None:
    """Leave it to the server."""


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
