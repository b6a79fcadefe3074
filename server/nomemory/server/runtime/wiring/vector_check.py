"""An offline check of the vector index against the message log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, closing
from functools import partial
from typing import TypeVar

from nomemory.server.embedding.factory import choose_embedder
from nomemory.server.indexing.vector.backlog import BacklogReader
from nomemory.server.indexing.vector.expected_points import ExpectedPoints, OrphanedVersion
from nomemory.server.indexing.vector.reconcile import Reconciliation, ReconciliationReport
from nomemory.server.indexing.vector.text_parts import split_text
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.semantic.collection import create_embedder_collection
from nomemory.server.search.semantic.factory import create_vector_index
from nomemory.server.store.change_feed import ChangeRef
from nomemory.server.store.sqlite.feed import SqliteChangeFeed

_T = TypeVar("_T")


async def check_vector_index(settings: Settings) -> ReconciliationReport | None:
    """Compare every stored message with the vector index.

    A server makes the same comparison at startup, and repairs the differences. A running server locks the files of the
    index, and reports an index that is being repaired in the field `faults` of its index status.

    Returns:
        The differences, or None if the embedder has no index yet.

    Raises:
        Fault: INDEX_UNAVAILABLE, the files of the index are damaged, or a server is using them.
        EmbedderSettingsError: the embedder settings are invalid.
    """
    directory = DataDirectory(settings.server.data)
    async with AsyncExitStack() as stack:
        embedder = choose_embedder(settings)
        stack.push_async_callback(embedder.close)
        collection = create_embedder_collection(settings, directory.vector_collections, embedder)
        if not collection.backlog.exists():
            return None
        log = stack.enter_context(closing(SqliteChangeFeed(directory.log_file)))
        index = create_vector_index(
            settings, directory.vector_collections, embedder, log_id=log.read_position().identity.log_id
        )
        stack.push_async_callback(index.close)
        backlog = stack.enter_context(closing(BacklogReader(collection.backlog)))
        max_chars, max_parts = settings.embedder.chunk_chars, settings.embedder.max_chunks
        split = None if embedder.kind == "none" else partial(split_text, max_chars=max_chars, max_parts=max_parts)
        expected = ExpectedPoints(log, backlog.find_tracked_ids, embedder.dimension, max_chars, split)
        return await Reconciliation(
            index, expected, _run_in_this_thread, backlog.read_feed_position(), _skip_repair, _skip_repair
        ).run()


async def _run_in_this_thread(job: Callable[[], _T], /) -> _T:
    return job()


async def _skip_repair(_differences: Sequence[ChangeRef | OrphanedVersion]) -> None:
    """Ignore the differences, because the check does not change the index."""
