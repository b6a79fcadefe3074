"""What only the writer's process has, and how the other processes of a server get at it."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.server.embedding.protocol import Embedder
from nomemory.server.log.protocol import LogWriter
from nomemory.server.processes.writer_calls import (
    Call,
    Delete,
    EmbedderFacts,
    EmbedDocuments,
    EmbedQuery,
    NoteQuery,
    SearchVectors,
    Status,
    Write,
)
from nomemory.server.reads.nearest_messages import VectorProgress
from nomemory.server.rpc.index_status import Report
from nomemory.server.vector.protocol import VectorSearch


@dataclass(frozen=True, slots=True)
class WriterSide:
    """The parts that a server has once. A reader has stand-ins for them, which ask the writer's process."""

    log: LogWriter
    vectors: VectorSearch
    embedder: Embedder
    progress: VectorProgress
    report: Report

    def embedder_facts(self) -> EmbedderFacts:
        """Say what the embedder is."""
        return EmbedderFacts(self.embedder.kind, self.embedder.model, self.embedder.dimension)

    async def answer(self, call: Call) -> object:
        """Do what a reader asks for.

        Raises:
            Fault: as each of the parts.
        """
        match call:
            case Write(messages, on_conflict):
                return await self.log.write(messages, on_conflict=on_conflict)
            case Delete(user_id, message_ids):
                return await self.log.delete(user_id, message_ids)
            case Status(user_id):
                return (await self.report.status(user_id)).SerializeToString()
            case _:
                return await self._about_meaning(call)

    async def _about_meaning(self, call: SearchVectors | EmbedQuery | EmbedDocuments | NoteQuery) -> object:
        match call:
            case SearchVectors(user_id, vector, narrowed, limit):
                self.progress.note_query(user_id)
                return await self.vectors.search(user_id, vector, narrowed, limit)
            case EmbedQuery(text):
                return await self.embedder.embed_query(text)
            case EmbedDocuments(texts):
                return await self.embedder.embed_documents(texts)
            case NoteQuery(user_id):
                self.progress.note_query(user_id)
                return None
