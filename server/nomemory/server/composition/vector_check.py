"""The check of a data directory that no server uses: does its vector index hold what the log says?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, closing
from functools import partial
from typing import TypeVar

from nomemory.server.data_directory import DataDirectory
from nomemory.server.embedding.factory import choose_embedder
from nomemory.server.log.feed import Touched
from nomemory.server.log.sqlite.feed import SqliteChangeFeed
from nomemory.server.settings import Settings
from nomemory.server.vector.collection import collection_of
from nomemory.server.vector.factory import choose_vector_index
from nomemory.server.vector.indexing.applier import parts_of
from nomemory.server.vector.indexing.backlog import BacklogReader
from nomemory.server.vector.indexing.comparison import Comparison, ExpectedPoints, Findings, Orphan

_T = TypeVar("_T")


async def check_vector_index(settings: Settings) -> Findings | None:
    """Compare the vector index of the settings' data directory with its log, message by message.

    The next start of a server does the same, and mends what is missing or is too much. A running server has its files
    for itself: ask for its status instead, whose `faults` name an index that is being mended.

    Args:
        settings: which data directory, embedder and engine.

    Returns:
        What was found; None if there is no index of this embedder yet.

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
        return await Comparison(index, expected, _here, backlog.fed(), _mend_nothing, _mend_nothing).run()


async def _here(job: Callable[[], _T], /) -> _T:
    return job()


async def _mend_nothing(_found: Sequence[Touched | Orphan]) -> None:
    """Leave it to the server."""
