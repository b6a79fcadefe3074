"""IngestService: decode, write, encode."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from nomemory.server.faults import Fault, Reason
from nomemory.server.identity.access import Need
from nomemory.server.identity.scope import Scope
from nomemory.server.log.protocol import Deleted, Erased, LogWriter, Outcome, Written
from nomemory.server.rpc.audit import NO_AUDIT, Action, Audit
from nomemory.server.rpc.call import Call, ClientStream, ServerStream, Unary
from nomemory.server.rpc.decode_ingest import (
    DeleteBatch,
    ImportBatch,
    WriteBatch,
    decode_delete,
    decode_erase,
    decode_import,
    decode_status,
    decode_write,
)
from nomemory.server.rpc.erasure_residues import residues
from nomemory.server.rpc.import_tally import ImportTally
from nomemory.server.rpc.index_status import Report
from nomemory.server.rpc.unbroken import unbroken
from nomemory.server.settings import Settings
from nomemory.server.standing_faults import ERASURE
from nomemory.server.vector.space import ServingSpace
from nomemory.server.write_token import WriteTokens
from nomemory.v1 import ingest_service_pb2 as pb

_OUTCOMES = {
    Outcome.CREATED: pb.WRITE_OUTCOME_CREATED,
    Outcome.UNCHANGED: pb.WRITE_OUTCOME_UNCHANGED,
    Outcome.REPLACED: pb.WRITE_OUTCOME_REPLACED,
}


@dataclass(frozen=True, slots=True)
class IngestService:
    """Serves `nomemory.v1.IngestService`."""

    writer: LogWriter
    report: Report
    tokens: WriteTokens
    spaces: ServingSpace
    settings: Settings
    audit: Audit = NO_AUDIT
    full_name: str = "nomemory.v1.IngestService"

    def needs(self) -> Mapping[str, Need]:
        """Return what each method needs of its caller."""
        write, look = Need(frozenset({Scope.INGEST})), Need(frozenset({Scope.QUERY, Scope.ADMIN}))
        return {
            **dict.fromkeys(("WriteMessages", "DeleteMessages", "EraseUser"), write),
            "ImportMessages": Need(frozenset({Scope.INGEST}), is_bulk=True),
            "GetIndexStatus": look,
        }

    def unary_methods(self) -> Mapping[str, Unary]:
        """Return the methods that take one request."""
        return {
            "WriteMessages": self.write_messages,
            "DeleteMessages": self.delete_messages,
            "EraseUser": self.erase_user,
            "GetIndexStatus": self.get_index_status,
        }

    def client_stream_methods(self) -> Mapping[str, ClientStream]:
        """Return the methods that take a stream of requests."""
        return {"ImportMessages": self.import_messages}

    def server_stream_methods(self) -> Mapping[str, ServerStream]:
        """Return the methods that answer with a stream: none."""
        return {}

    async def write_messages(self, request: pb.WriteMessagesRequest, call: Call) -> pb.WriteMessagesResponse:
        """Store a batch, all or nothing."""
        batch = await decode_write(request, self.settings, self.spaces.now.embedder.dimension)
        written = await self._write("write", batch, call)
        results = [
            pb.WriteResult(message_id=message_id, outcome=_OUTCOMES[outcome])
            for message_id, outcome in zip(written.message_ids, written.outcomes, strict=True)
        ]
        return pb.WriteMessagesResponse(results=results, write_token=self.tokens.issue(written.sequence))

    async def import_messages(
        self, requests: AsyncIterator[pb.ImportMessagesRequest], call: Call
    ) -> pb.ImportMessagesResponse:
        """Store a stream of batches; what is refused is reported and skipped."""
        tally = ImportTally(self.settings.limits.rejections_max)
        try:
            async for request in requests:
                batch = await decode_import(request, self.settings, self.spaces.now.embedder.dimension)
                written = await self._write_in_turn(batch, call)
                tally.add(batch, written, size=len(request.messages))
        except Fault as fault:
            raise tally.ended_by(fault) from fault
        tally.response.write_token = self.tokens.issue(tally.sequence)
        return tally.response

    async def delete_messages(self, request: pb.DeleteMessagesRequest, call: Call) -> pb.DeleteMessagesResponse:
        """Delete messages of one user."""
        batch = decode_delete(request, self.settings)
        receipt = await unbroken(self._delete(batch, call))
        return pb.DeleteMessagesResponse(
            deleted=receipt.deleted,
            missing_message_ids=receipt.missing,
            write_token=self.tokens.issue(receipt.sequence),
        )

    async def erase_user(self, request: pb.EraseUserRequest, call: Call) -> pb.EraseUserResponse:
        """Delete everything of one user, and say what still holds bytes of it."""
        user_id = decode_erase(request, self.settings)
        erased = await unbroken(self._erase(user_id, call))
        response = pb.EraseUserResponse(
            deleted=erased.deleted,
            sequence=erased.sequence,
            write_token=self.tokens.issue(erased.sequence),
        )
        response.erase_ts.GetCurrentTime()
        if erased.was_known:
            faults = (await self.report.status(user_id)).faults
            waits = any(fault.part == ERASURE for fault in faults)
            response.residues.extend(residues(self.settings, response.erase_ts, waits=waits))
        return response

    async def get_index_status(self, request: pb.GetIndexStatusRequest, call: Call) -> pb.GetIndexStatusResponse:
        """Return how far the log and each index are."""
        return await self.report.status(decode_status(request, self.settings), call.user_prefix)

    async def _write(self, action: Action, batch: WriteBatch | ImportBatch, call: Call) -> Written:
        """Store a batch. What the log has is in the audit, even if the caller has gone meanwhile."""

        async def stored() -> Written:
            written = await self.writer.write(
                batch.messages, on_conflict=batch.on_conflict, request_id=batch.request_id
            )
            self.audit.stored(call, action, batch.messages, written.outcomes)
            return written

        return await unbroken(stored())

    async def _delete(self, batch: DeleteBatch, call: Call) -> Deleted:
        if batch.narrowed is None:
            receipt = await self.writer.delete(batch.user_id, batch.message_ids)
        else:
            receipt = await self.writer.delete_matching(batch.user_id, batch.narrowed)
        action: Action = "delete" if batch.narrowed is None else "delete-matching"
        self.audit.removed(call, action, batch.user_id, receipt.deleted)
        return receipt

    async def _erase(self, user_id: str, call: Call) -> Erased:
        erased = await self.writer.erase(user_id)
        self.audit.removed(call, "erase", user_id, erased.deleted)
        return erased

    async def _write_in_turn(self, batch: ImportBatch, call: Call) -> Written:
        """Store a batch of an import; where too much is queued, wait for room within the deadline.

        A back-fill has nobody who waits for it, and its client could only send everything again.
        """
        while True:
            try:
                return await self._write("import", batch, call)
            except Fault as fault:
                pause_s = fault.retry_after_s or 0.0
                # Twice: the client has to hear of it before its deadline.
                if fault.reason != Reason.ERROR_REASON_OVERLOADED or call.remaining_s() <= 2 * pause_s:
                    raise
                await asyncio.sleep(pause_s)
