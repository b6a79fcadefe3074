"""A reader's access to the parts of the writer's process, over the pipe.

The vector space that a reader serves from: the one that the writer names.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from opentelemetry.trace import SpanKind

from nomemory.server.embedding.protocol import Embedder
from nomemory.server.embedding.wrappers import CachedEmbedder
from nomemory.server.faults import Fault, Reason
from nomemory.server.processes.connection import CallFailedError, PipeClosedError, PipeConnection
from nomemory.server.processes.frames import InTrace
from nomemory.server.readers.calls import Ask, GetAssignment, SpaceDescription
from nomemory.server.settings import Settings
from nomemory.server.vector.active_index import LimitedVectorSearch, ServingSpace, VectorSpace, query_limit
from nomemory.server.vector.indexing.backlog import BacklogReader
from nomemory.server.vector.protocol import VectorSearch
from nomemory.server.vector.qdrant.sharding import QdrantSharding
from nomemory.spans.span import outgoing_metadata, span

if TYPE_CHECKING:
    from nomemory.server.vector.shared.postgres_index import PostgresSharedIndex

_RETRY_AFTER_S = 1.0
_LOOK_S = 0.02


class WriterClient:
    """Calls the writer's process."""

    def __init__(self, pipe: PipeConnection) -> None:
        self._pipe = pipe

    async def assignment(self) -> Any:  # noqa: ANN401 - it cannot be told from others what crosses a pipe
        """Return what to serve, an `Assignment`, once the writer has what a reader opens; raises as `ask`."""
        return await self._answer(GetAssignment())

    async def ask(self, request: Ask) -> Any:  # noqa: ANN401 - as the part answers
        """Call a part and return what it answers.

        Raises:
            Fault: the writer's; STORAGE_UNAVAILABLE if its process is gone.
        """
        name = f"writer {request.part}.{request.method}"
        with span(name, SpanKind.CLIENT):
            headers = outgoing_metadata()
            return await self._answer(InTrace(name, headers, request) if headers else request)

    def notify(self, request: Ask) -> None:
        """Call a part whose answer does not matter."""
        self._pipe.notify(request)

    def ready(self) -> None:
        """Report that this reader serves."""
        self._pipe.ready()

    async def _answer(self, request: object) -> Any:  # noqa: ANN401 - as `ask`
        try:
            return await self._pipe.call(request)
        except PipeClosedError as error:
            reason, message = Reason.ERROR_REASON_STORAGE_UNAVAILABLE, "the server's writer is gone"
            raise Fault(reason, message, retry_after_s=_RETRY_AFTER_S) from error
        except CallFailedError as error:
            fault: Fault = error.error
            raise fault from None


class RemotePart:
    """Stands in a reader for a part of the writer's process: each method calls that of the part.

    Args:
        writer: the process.
        part: what the part is called there, see `Ask`.
        space: the vector space that it belongs to.
    """

    def __init__(self, writer: WriterClient, part: str, space: str = "") -> None:
        self._writer = writer
        self._part = part
        self._space = space

    def __getattr__(self, method: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        return partial(self._ask, method)

    async def _ask(self, method: str, *arguments: object, **named: object) -> Any:  # noqa: ANN401 - as the part answers
        return await self._writer.ask(Ask(self._part, method, arguments, named, self._space))


class RemoteEmbedder(RemotePart):
    """Implements `Embedder`."""

    def __init__(self, writer: WriterClient, description: SpaceDescription) -> None:
        super().__init__(writer, "embedder", description.name)
        self.kind = description.kind
        self.model = description.model
        self.dimension = description.dimension

    async def close(self) -> None:
        """Do nothing: the model is the writer's."""


class RemoteProgress:
    """Implements `VectorProgress`: reads how far the index is from its backlog; reports who is being queried."""

    def __init__(self, writer: WriterClient, space: str, backlog: BacklogReader) -> None:
        self._writer = writer
        self._space = space
        self._backlog = backlog
        self._looked_at = 0.0

    async def behind(self, user_id: str, sequence: int) -> bool:
        """Return whether a change of this user up to a sequence may not be in the index yet."""
        return self._backlog.is_behind(user_id, sequence)

    def look(self) -> None:
        """Have the writer's process look at the log now; who waits asks again and again."""
        now = time.monotonic()
        if now - self._looked_at >= _LOOK_S:
            self._looked_at = now
            self._writer.notify(Ask("progress", "look", space=self._space))

    def note_query(self, user_id: str) -> None:
        """Have the user's backlog go first."""
        self._writer.notify(Ask("progress", "note_query", (user_id,), space=self._space))


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

    async def answer(self, space: SpaceDescription) -> None:
        """Follow the writer."""
        serving = await asyncio.shield(self._begun)
        if serving.now.name == space.name:
            return
        opened, self._opened = self._opened, AsyncExitStack()
        async with opened:
            await serving.replace(self._make(space, self._opened), self._longest_s)
            serving.forget_former()

    async def close(self) -> None:
        """Take down the space that is served."""
        await self._opened.aclose()


def remote_space(
    settings: Settings,
    writer: WriterClient,
    shared_index: Callable[[str], PostgresSharedIndex | None],
    described: SpaceDescription,
    stack: AsyncExitStack,
) -> VectorSpace:
    """Make a space that calls the writer's process; the stack takes it down."""
    remote = cast("Embedder", RemoteEmbedder(writer, described))
    embedder = CachedEmbedder(remote, settings.embedder.cache_max)
    stack.push_async_callback(embedder.close)
    direct = cast("VectorSearch", RemotePart(writer, "direct", described.name))
    vectors, queries = LimitedVectorSearch(direct), query_limit(embedder)
    shared_progress = shared_index(QdrantSharding.of(settings).collection_name(described.name))
    if shared_progress is not None:
        stack.push_async_callback(shared_progress.close)
        return VectorSpace(described.name, embedder, vectors, direct, shared_progress, queries)
    backlog = BacklogReader(described.backlog)
    stack.callback(backlog.close)
    progress = RemoteProgress(writer, described.name, backlog)
    return VectorSpace(described.name, embedder, vectors, direct, progress, queries)
