"""The parts that only the writer's process has, and its answers to readers."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.server.embedding.protocol import Embedder
from nomemory.server.log.protocol import LogWriter
from nomemory.server.readers.calls import (
    Changing,
    Delete,
    DeleteMatching,
    EmbedderDescription,
    EmbedDocuments,
    EmbedQuery,
    Erase,
    FetchVectors,
    GetStatus,
    NoteDamage,
    NoteQuery,
    SearchVectors,
    Write,
    WriterCall,
)
from nomemory.server.reads.nearest_messages import VectorProgress
from nomemory.server.rpc.index_status import Report
from nomemory.server.vector.protocol import VectorSearch


@dataclass(frozen=True, slots=True)
class WriterServices:
    """The parts that a server has once. A reader has the remote ones (`remote.py`), which call the writer's process."""

    log: LogWriter
    vectors: VectorSearch
    embedder: Embedder
    progress: VectorProgress
    report: Report

    def describe_embedder(self) -> EmbedderDescription:
        """Return what readers know of the embedder."""
        return EmbedderDescription(self.embedder.kind, self.embedder.model, self.embedder.dimension)

    async def answer(self, call: WriterCall) -> object:
        """Answer a reader's call.

        Raises:
            Fault: as each of the parts.
        """
        match call:
            case Write() | Delete() | DeleteMatching() | Erase():
                return await self._change(call)
            case GetStatus(user_id, prefix):
                return (await self.report.status(user_id, prefix)).SerializeToString()
            case NoteDamage(met):
                self.report.note_damage(met)
                return None
            case _:
                return await self._answer_about_meaning(call)

    async def _change(self, call: Changing) -> object:
        match call:
            case Write(messages, on_conflict, request_id):
                return await self.log.write(messages, on_conflict=on_conflict, request_id=request_id)
            case Delete(user_id, message_ids):
                return await self.log.delete(user_id, message_ids)
            case DeleteMatching(user_id, narrowed):
                return await self.log.delete_matching(user_id, narrowed)
            case Erase(user_id):
                return await self.log.erase(user_id)

    async def _answer_about_meaning(
        self, call: SearchVectors | FetchVectors | EmbedQuery | EmbedDocuments | NoteQuery
    ) -> object:
        match call:
            case SearchVectors(user_id, vector, narrowed, limit):
                self.progress.note_query(user_id)
                return await self.vectors.search(user_id, vector, narrowed, limit)
            case FetchVectors(user_id, message_ids):
                return await self.vectors.vectors(user_id, message_ids)
            case EmbedQuery(text):
                return await self.embedder.embed_query(text)
            case EmbedDocuments(texts):
                return await self.embedder.embed_documents(texts)
            case NoteQuery(user_id):
                self.progress.note_query(user_id)
                return None
