"""The parts that only the writer's process has, and its answers to readers."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.server.log.protocol import LogWriter
from nomemory.server.metrics.text import Exposition
from nomemory.server.readers.calls import (
    AboutMeaning,
    Changing,
    Delete,
    DeleteMatching,
    EmbedDocuments,
    EmbedQuery,
    Erase,
    ExportSpans,
    FetchVectors,
    GetMetrics,
    GetStatus,
    LookAtLog,
    NoteDamage,
    NoteQuery,
    SearchVectors,
    Write,
    WriterCall,
)
from nomemory.server.rpc.index_status import Report
from nomemory.server.tracing.span_export import Deliver, Delivery
from nomemory.server.vector.space import ServingSpace


@dataclass(frozen=True, slots=True)
class WriterServices:
    """The parts that a server has once. A reader has the remote ones (`remote.py`), which call the writer's process."""

    log: LogWriter
    spaces: ServingSpace
    report: Report
    exposition: Exposition | None = None
    deliver: Deliver | None = None

    async def answer(self, call: WriterCall) -> object:
        """Answer a reader's call.

        Raises:
            Fault: as each of the parts.
        """
        match call:
            case Write() | Delete() | DeleteMatching() | Erase():
                return await self._change(call)
            case GetStatus() | GetMetrics() | ExportSpans():
                return await self._tell(call)
            case NoteDamage(met):
                self.report.note_damage(met)
                return None
            case _:
                return await self._answer_about_meaning(call)

    async def _tell(self, call: GetStatus | GetMetrics | ExportSpans) -> object:
        """Tell how the server is doing, or have its spans told to others."""
        match call:
            case GetStatus(user_id, prefix):
                return (await self.report.status(user_id, prefix)).SerializeToString()
            case GetMetrics():
                return await self.exposition.text() if self.exposition else b""
            case ExportSpans(batch, spans):
                return await self.deliver(batch, spans) if self.deliver else Delivery(spans)

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

    async def _answer_about_meaning(self, call: AboutMeaning) -> object:
        space = self.spaces.named(call.space)
        match call:
            case SearchVectors(_, user_id, vector, narrowed, limit):
                space.progress.note_query(user_id)
                return await space.direct.search(user_id, vector, narrowed, limit)
            case FetchVectors(_, user_id, message_ids):
                return await space.direct.vectors(user_id, message_ids)
            case EmbedQuery(_, text):
                return await space.embedder.embed_query(text)
            case EmbedDocuments(_, texts):
                return await space.embedder.embed_documents(texts)
            case NoteQuery(_, user_id):
                space.progress.note_query(user_id)
                return None
            case LookAtLog():
                space.progress.look()
                return None
