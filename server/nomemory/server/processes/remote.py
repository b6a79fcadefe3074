"""A reader's stand-ins for what only the writer's process has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nomemory.server.faults import Fault, Reason
from nomemory.server.log.protocol import Deleted, OnConflict, Written
from nomemory.server.message import Filter, Message
from nomemory.server.processes.pipe_client import PipeClient, PipeClosedError
from nomemory.server.processes.writer_calls import (
    Delete,
    EmbedderFacts,
    EmbedDocuments,
    EmbedQuery,
    NoteQuery,
    Refusal,
    SearchVectors,
    Status,
    Write,
)
from nomemory.server.vector.backlog_reader import BacklogReader
from nomemory.server.vector.protocol import Vector, VectorHit
from nomemory.v1 import ingest_service_pb2 as pb

_RETRY_AFTER_S = 1.0


class WriterLine:
    """The line to the writer's process."""

    def __init__(self, pipe: PipeClient) -> None:
        self._pipe = pipe

    async def ask(self, request: object) -> Any:  # noqa: ANN401 - what each call answers is said at the call
        """Have a request answered.

        Raises:
            Fault: the writer's; STORAGE_UNAVAILABLE if its process is gone.
        """
        try:
            answer = await self._pipe.ask(request)
        except PipeClosedError as error:
            reason, message = Reason.ERROR_REASON_STORAGE_UNAVAILABLE, "the server's writer is gone"
            raise Fault(reason, message, retry_after_s=_RETRY_AFTER_S) from error
        if isinstance(answer.value, Refusal):
            raise answer.value.fault()
        return answer.value

    def tell(self, request: object) -> None:
        """Send what needs no answer."""
        self._pipe.tell(request)


class DistantLog:
    """Implements `LogWriter`."""

    def __init__(self, line: WriterLine) -> None:
        self._line = line

    async def write(self, messages: Sequence[Message], *, on_conflict: OnConflict) -> Written:
        """Store a batch, all or nothing; returns when it is durable."""
        written: Written = await self._line.ask(Write(tuple(messages), on_conflict))
        return written

    async def delete(self, user_id: str, message_ids: Sequence[str]) -> Deleted:
        """Delete messages of one user; returns when it is durable."""
        deleted: Deleted = await self._line.ask(Delete(user_id, tuple(message_ids)))
        return deleted


class DistantVectors:
    """Implements `VectorSearch`."""

    def __init__(self, line: WriterLine) -> None:
        self._line = line

    async def search(self, user_id: str, vector: Vector, narrowed: Filter, limit: int) -> list[VectorHit]:
        """Return the nearest messages."""
        hits: list[VectorHit] = await self._line.ask(SearchVectors(user_id, vector, narrowed, limit))
        return hits


class DistantEmbedder:
    """Implements `Embedder`."""

    def __init__(self, line: WriterLine, facts: EmbedderFacts) -> None:
        self._line = line
        self.kind = facts.kind
        self.model = facts.model
        self.dimension = facts.dimension

    async def embed_query(self, text: str) -> Vector:
        """Embed what is searched for."""
        vector: Vector = await self._line.ask(EmbedQuery(text))
        return vector

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed what is stored."""
        vectors: list[Vector] = await self._line.ask(EmbedDocuments(tuple(texts)))
        return vectors

    async def close(self) -> None:
        """Do nothing: the model is the writer's."""


class DistantProgress:
    """Implements `VectorProgress`: how far the index is stands in a file; who is being queried is told."""

    def __init__(self, line: WriterLine, backlog: BacklogReader) -> None:
        self._line = line
        self._backlog = backlog

    def behind(self, user_id: str, sequence: int) -> bool:
        """Return whether a change of this user up to a sequence may not be in the index yet."""
        return self._backlog.is_behind(user_id, sequence)

    def note_query(self, user_id: str) -> None:
        """Have the user's backlog go first. Where there is none, the search itself will tell."""
        if self._backlog.is_pending(user_id):
            self._line.tell(NoteQuery(user_id))


class DistantReport:
    """Implements `Report`."""

    def __init__(self, line: WriterLine) -> None:
        self._line = line

    async def status(self, user_id: str | None) -> pb.GetIndexStatusResponse:
        """Say how far the log and each index are."""
        return pb.GetIndexStatusResponse.FromString(await self._line.ask(Status(user_id)))
