"""Check whether the vector index of a data directory that no server uses is consistent with the message log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, closing
from functools import partial
from typing import TypeVar

from nomemory.server.embedding.factory import choose_embedder
from nomemory.server.indexing.vector.backlog import BacklogReader
from nomemory.server.indexing.vector.expected_points import ExpectedPoints, Orphan
from nomemory.server.indexing.vector.reconcile import ReconcileReport, Reconciliation
from nomemory.server.indexing.vector.text_parts import split_text
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.semantic.collection import collection_of
from nomemory.server.search.semantic.factory import choose_vector_index
from nomemory.server.store.change_feed import Touched
from nomemory.server.store.sqlite.feed import SqliteChangeFeed

_T = TypeVar("_T")


async def check_vector_index(settings: Settings) -> ReconcileReport | None:
    """Compare the vector index of the settings' data directory with its log, message by message.

    A server does the same at its next start, and repairs the differences. A running server has the files locked: use
    its status instead, whose `faults` name an index that is being repaired.

    Args:
        settings: the data directory, embedder and engine.

    Returns:
        The differences; None if there is no index of this embedder yet.

    Raises:
        Fault: INDEX_UNAVAILABLE, a server has the files open, or they are damaged.
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
        max_chars, max_parts = settings.embedder.chunk_chars, settings.embedder.max_chunks
        split = None if embedder.kind == "none" else partial(split_text, max_chars=max_chars, max_parts=max_parts)
        expected = ExpectedPoints(log, backlog.known, embedder.dimension, max_chars, split)
        return await Reconciliation(index, expected, _run_here, backlog.fed(), _ignore, _ignore).run()


async def _run_here(job: Callable[[], _T], /) -> _T:
    return job()


async def _ignore(_differences: Sequence[Touched | Orphan]) -> None:
    """Leave the repair to the server."""
