"""A reader's access to the parts of the writer's process, over the pipe."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from nomemory.server.admission.ticket import waiting_elsewhere
from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import Fault, Reason
from nomemory.server.log.damage import Damage
from nomemory.server.log.protocol import Deleted, Erased, OnConflict, Written
from nomemory.server.message import Filter, Message
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
    Rerank,
    SearchVectors,
    SpaceDescription,
    Write,
    WriterCall,
)
from nomemory.server.tracing.span_export import Delivery
from nomemory.server.vector.backlog_reader import BacklogReader
from nomemory.server.vector.protocol import VectorHit
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
