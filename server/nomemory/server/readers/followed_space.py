"""The vector space that a reader serves from: the one that the writer names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

from nomemory.server.embedding.wrappers import CachedEmbedder, SharedEmbedder
from nomemory.server.metrics.meters import EmbedderMeter
from nomemory.server.readers.calls import ReplaceSpace, SpaceDescription
from nomemory.server.readers.remote import RemoteEmbedder, RemoteProgress, RemoteVectors, WriterClient
from nomemory.server.settings import Settings
from nomemory.server.vector.collection import QdrantLayout
from nomemory.server.vector.indexing.backlog_reader import BacklogReader
from nomemory.server.vector.shared.protocol import SharedIndex
from nomemory.server.vector.space import ServingSpace, SharedVectors, VectorSpace

MakeSpace = Callable[[SpaceDescription, AsyncExitStack], VectorSpace]
"""Makes the space of a description; the stack takes it down."""


class FollowedSpace:
    """Makes the space of an assignment, and follows the writer to another. The pipe is opened with `answer`."""

    def __init__(self) -> None:
        self._begun: asyncio.Future[ServingSpace] = asyncio.get_running_loop().create_future()
        self._make: MakeSpace
        self._opened = AsyncExitStack()
        self._longest_s = 0.0

    def begin(self, make: MakeSpace, first: SpaceDescription, longest_s: float) -> ServingSpace:
        """Make the first space.

        Args:
            make: makes each of them.
            first: what to begin with.
            longest_s: how long a read may use a space that has been replaced.
        """
        self._make, self._longest_s = make, longest_s
        serving = ServingSpace(make(first, self._opened))
        self._begun.set_result(serving)
        return serving

    async def answer(self, request: ReplaceSpace) -> None:
        """Follow the writer."""
        serving = await asyncio.shield(self._begun)
        if serving.now.name == request.space.name:
            return
        opened, self._opened = self._opened, AsyncExitStack()
        async with opened:
            await serving.replace(self._make(request.space, self._opened), self._longest_s)
            serving.forget_former()

    async def close(self) -> None:
        """Take down the space that is served."""
        await self._opened.aclose()


def remote_space(
    settings: Settings,
    writer: WriterClient,
    meter: EmbedderMeter,
    shared_index: Callable[[str], SharedIndex | None],
    described: SpaceDescription,
    stack: AsyncExitStack,
) -> VectorSpace:
    """Make a space that calls the writer's process; the stack takes it down."""
    shared = SharedEmbedder(RemoteEmbedder(writer, described), settings.reads.embeddings_max, meter)
    embedder = CachedEmbedder(shared, settings.embedder.cache_max, meter)
    stack.push_async_callback(embedder.close)
    direct = RemoteVectors(writer, described.name)
    vectors = SharedVectors(direct, settings.reads.vectors_max)
    shared_progress = shared_index(QdrantLayout.of(settings).named(described.name))
    if shared_progress is not None:
        stack.push_async_callback(shared_progress.close)
        return VectorSpace(described.name, embedder, vectors, direct, shared_progress)
    backlog = BacklogReader(described.backlog)
    stack.callback(backlog.close)
    return VectorSpace(described.name, embedder, vectors, direct, RemoteProgress(writer, described.name, backlog))
