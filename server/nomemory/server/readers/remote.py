"""A reader's access to the parts of the writer's process, over the pipe.

The vector space that a reader serves from: the one that the writer names.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from nomemory.server.admission.fair_slots import waiting_elsewhere
from nomemory.server.embedding.vector import Vector
from nomemory.server.embedding.wrappers import CachedEmbedder, SharedEmbedder
from nomemory.server.faults import Fault, Reason
from nomemory.server.log.damage import Damage
from nomemory.server.log.protocol import Deleted, Erased, OnConflict, Written
from nomemory.server.message import Filter, Message
from nomemory.server.metrics.meters import EmbedderMeter
from nomemory.server.processes.connection import CallFailedError, PipeClosedError, PipeConnection
from nomemory.server.readers.calls import (
    Delete,
    DeleteMatching,
    EmbedDocuments,
    EmbedQuery,
    Erase,
    ExportSpans,
    FaultRecord,
    FetchVectors,
    GetAssignment,
    GetMetrics,
    GetStatus,
    LookAtLog,
    NoteDamage,
    NoteQuery,
    ReplaceSpace,
    Rerank,
    SearchVectors,
    SpaceDescription,
    Write,
    WriterCall,
)
from nomemory.server.settings import Settings
from nomemory.server.tracing.span_export import Delivery
from nomemory.server.vector.collection import QdrantLayout
from nomemory.server.vector.indexing.backlog_reader import BacklogReader
from nomemory.server.vector.protocol import VectorHit
from nomemory.server.vector.shared.protocol import SharedIndex
from nomemory.server.vector.space import ServingSpace, SharedVectors, VectorSpace
from nomemory.spans.span import Kind, span
from nomemory.v1 import ingest_service_pb2 as pb

_RETRY_AFTER_S = 1.0
_LOOK_S = 0.02


class WriterClient:
    """Calls the writer's process."""

    def __init__(self, pipe: PipeConnection) -> None:
        self._pipe = pipe

    async def call(self, request: WriterCall | GetAssignment) -> Any:  # noqa: ANN401 - each request says its answer
        """Send a request and return the answer.

        Raises:
            Fault: the writer's; STORAGE_UNAVAILABLE if its process is gone.
        """
        try:
            with span(type(request).__name__, Kind.CLIENT):
                return await self._pipe.call(request)
        except PipeClosedError as error:
            reason, message = Reason.ERROR_REASON_STORAGE_UNAVAILABLE, "the server's writer is gone"
            raise Fault(reason, message, retry_after_s=_RETRY_AFTER_S) from error
        except CallFailedError as error:
            record: FaultRecord = error.error
            raise record.fault() from None

    def notify(self, request: NoteQuery | LookAtLog | NoteDamage) -> None:
        """Send a request that needs no answer."""
        self._pipe.notify(request)

    def ready(self) -> None:
        """Report that this reader serves."""
        self._pipe.ready()


class RemoteLog:
    """Implements `LogWriter`."""

    def __init__(self, writer: WriterClient) -> None:
        self._writer = writer

    async def write(self, messages: Sequence[Message], *, on_conflict: OnConflict, request_id: str = "") -> Written:
        """Store a batch, all or nothing; returns when it is durable."""
        written: Written = await self._writer.call(Write(tuple(messages), on_conflict, request_id))
        return written

    async def delete(self, user_id: str, message_ids: Sequence[str]) -> Deleted:
        """Delete messages of one user; returns when it is durable."""
        deleted: Deleted = await self._writer.call(Delete(user_id, tuple(message_ids)))
        return deleted

    async def delete_matching(self, user_id: str, narrowed: Filter) -> Deleted:
        """Delete whatever a filter admits, all or nothing; returns when it is durable."""
        deleted: Deleted = await self._writer.call(DeleteMatching(user_id, narrowed))
        return deleted

    async def erase(self, user_id: str) -> Erased:
        """Delete everything of one user; returns when it is durable."""
        erased: Erased = await self._writer.call(Erase(user_id))
        return erased


class RemoteVectors:
    """Implements `VectorSearch` for the space of that name."""

    def __init__(self, writer: WriterClient, space: str) -> None:
        self._writer = writer
        self._space = space

    async def search(self, user_id: str, vector: Vector, narrowed: Filter, limit: int) -> list[VectorHit]:
        """Return the nearest messages."""
        hits: list[VectorHit] = await self._writer.call(SearchVectors(self._space, user_id, vector, narrowed, limit))
        return hits

    async def vectors(self, user_id: str, message_ids: Sequence[str]) -> dict[str, Vector]:
        """Return the stored vectors of messages' first parts."""
        found: dict[str, Vector] = await self._writer.call(FetchVectors(self._space, user_id, tuple(message_ids)))
        return found


class RemoteEmbedder:
    """Implements `Embedder`."""

    def __init__(self, writer: WriterClient, description: SpaceDescription) -> None:
        self._writer = writer
        self._space = description.name
        self.kind = description.kind
        self.model = description.model
        self.dimension = description.dimension

    async def embed_query(self, text: str) -> Vector:
        """Embed a query."""
        vector: Vector = await self._writer.call(EmbedQuery(self._space, text))
        return vector

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents."""
        vectors: list[Vector] = await self._writer.call(EmbedDocuments(self._space, tuple(texts)))
        return vectors

    async def close(self) -> None:
        """Do nothing: the model is the writer's."""


class RemoteReranker:
    """Implements `Reranker`."""

    def __init__(self, writer: WriterClient) -> None:
        self._writer = writer

    async def scores(self, question: str, texts: Sequence[str]) -> Sequence[float] | None:
        """Return how well each text answers."""
        try:
            async with waiting_elsewhere():
                found: Sequence[float] | None = await self._writer.call(Rerank(question, tuple(texts)))
        except Fault:
            return None
        return found


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
            self._writer.notify(LookAtLog(self._space))

    def note_query(self, user_id: str) -> None:
        """Have the user's backlog go first. If there is none, the search itself reports the query."""
        if self._backlog.is_pending(user_id):
            self._writer.notify(NoteQuery(self._space, user_id))


class RemoteExporter:
    """Sends spans through the writer's process."""

    def __init__(self, writer: WriterClient) -> None:
        self._writer = writer

    async def deliver(self, batch: bytes, spans: int) -> Delivery:
        """Send a batch."""
        try:
            delivery: Delivery = await self._writer.call(ExportSpans(batch, spans))
        except Fault as fault:
            return Delivery(spans, fault.message)
        return delivery


class RemoteExposition:
    """Implements `Exposition`."""

    def __init__(self, writer: WriterClient) -> None:
        self._writer = writer

    async def text(self) -> bytes:
        """Return the figures of the whole server, as Prometheus reads them."""
        text: bytes = await self._writer.call(GetMetrics())
        return text


class RemoteReport:
    """Implements `Report`."""

    def __init__(self, writer: WriterClient) -> None:
        self._writer = writer

    async def status(self, user_id: str | None, prefix: str = "") -> pb.GetIndexStatusResponse:
        """Report how far the log and each index are."""
        return pb.GetIndexStatusResponse.FromString(await self._writer.call(GetStatus(user_id, prefix)))

    def note_damage(self, met: Damage) -> None:
        """Have the writer's process take note of damage to the log."""
        self._writer.notify(NoteDamage(met))


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
