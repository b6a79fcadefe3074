"""IngestService: decode, write, encode."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from nomemory.server.api.audit import Action, Audit
from nomemory.server.api.call import CallContext
from nomemory.server.api.identity.access import RequiredScopes
from nomemory.server.api.identity.caller import Scope
from nomemory.server.api.service import ServedMethod
from nomemory.server.api.services.erasure_residues import residues
from nomemory.server.api.services.import_tally import ImportTally
from nomemory.server.api.services.index_status import Report
from nomemory.server.api.validation.ingest_requests import (
    Batch,
    decode_delete,
    decode_import,
    decode_user,
    decode_write,
)
from nomemory.server.api.write_tokens import WriteTokens
from nomemory.server.faults import Fault, Reason
from nomemory.server.message_filter import Filter
from nomemory.server.runtime.active_faults import ERASURE
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.semantic.active_index import ActiveSpace
from nomemory.server.store.protocol import LogWriter
from nomemory.server.store.results import Deleted, Erased, Written
from nomemory.v1 import ingest_service_pb2 as pb

_REJECTIONS_MAX: Final = 1000
"""Maximum rejections that an import lists."""


_Result = TypeVar("_Result")
_GOING_ON: Final = set[asyncio.Task[Any]]()
"""The event loop alone does not keep a task."""


async def unbroken(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Return what work results in. If the caller is cancelled meanwhile, the work goes on."""
    task = asyncio.create_task(work)
    _GOING_ON.add(task)
    task.add_done_callback(_GOING_ON.discard)
    return await asyncio.shield(task)


@dataclass(frozen=True, slots=True)
class IngestService:
    """Serves `nomemory.v1.IngestService`."""

    writer: LogWriter
    report: Report
    tokens: WriteTokens
    spaces: ActiveSpace
    settings: Settings
    full_name: str = "nomemory.v1.IngestService"

    def methods(self) -> Mapping[str, ServedMethod]:
        """Return the methods by their short names."""
        write = RequiredScopes(frozenset({Scope.INGEST}))
        status = RequiredScopes(frozenset({Scope.QUERY, Scope.ADMIN}))
        return {
            "WriteMessages": ServedMethod(write, self.write_messages),
            "ImportMessages": ServedMethod(write, self.import_messages, is_bulk=True),
            "DeleteMessages": ServedMethod(write, self.delete_messages),
            "EraseUser": ServedMethod(write, self.erase_user),
            "GetIndexStatus": ServedMethod(status, self.get_index_status),
        }

    @property
    def audit(self) -> Audit:
        """What notes changes."""
        return Audit(is_on=self.settings.server.audit_log)

    async def write_messages(self, request: pb.WriteMessagesRequest, context: CallContext) -> pb.WriteMessagesResponse:
        """Store a batch, all or nothing."""
        batch = await decode_write(request, self.settings, self.spaces.now.embedder.dimension)
        written = await self._write("write", batch, context)
        results = [
            pb.WriteResult(message_id=message_id, outcome=pb.WriteOutcome.Value(f"WRITE_OUTCOME_{outcome.name}"))
            for message_id, outcome in zip(written.message_ids, written.outcomes, strict=True)
        ]
        return pb.WriteMessagesResponse(results=results, write_token=self.tokens.issue(written.sequence))

    async def import_messages(
        self, requests: AsyncIterator[pb.ImportMessagesRequest], context: CallContext
    ) -> pb.ImportMessagesResponse:
        """Store a stream of batches; what is refused is reported and skipped."""
        tally = ImportTally(_REJECTIONS_MAX)
        try:
            async for request in requests:
                batch = await decode_import(request, self.settings, self.spaces.now.embedder.dimension)
                written = await self._write_in_turn(batch, context)
                tally.add(batch, written, size=len(request.messages))
        except Fault as fault:
            fault.metadata = {**fault.metadata, **tally.so_far()}
            raise
        tally.response.write_token = self.tokens.issue(tally.sequence)
        return tally.response

    async def delete_messages(
        self, request: pb.DeleteMessagesRequest, context: CallContext
    ) -> pb.DeleteMessagesResponse:
        """Delete messages of one user."""
        receipt = await unbroken(self._delete(request, decode_delete(request, self.settings), context))
        return pb.DeleteMessagesResponse(
            deleted=receipt.deleted,
            missing_message_ids=receipt.missing,
            write_token=self.tokens.issue(receipt.sequence),
        )

    async def erase_user(self, request: pb.EraseUserRequest, context: CallContext) -> pb.EraseUserResponse:
        """Delete everything of one user, and say what still holds bytes of it."""
        user_id = decode_user(request.user_id, self.settings, required=True)
        erased = await unbroken(self._erase(user_id, context))
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

    async def get_index_status(
        self, request: pb.GetIndexStatusRequest, context: CallContext
    ) -> pb.GetIndexStatusResponse:
        """Return how far the log and each index are."""
        user_id = decode_user(request.user_id, self.settings, required=False)
        return await self.report.status(user_id or None, context.user_prefix)

    async def _write(self, action: Action, batch: Batch, context: CallContext) -> Written:
        """Store a batch. What the log has is in the audit, even if the caller has gone meanwhile."""

        async def stored() -> Written:
            written = await self.writer.write(
                batch.messages, on_conflict=batch.on_conflict, request_id=batch.request_id
            )
            self.audit.stored(context, action, batch.messages, written.outcomes)
            return written

        return await unbroken(stored())

    async def _delete(
        self, request: pb.DeleteMessagesRequest, narrowed: Filter | None, context: CallContext
    ) -> Deleted:
        if narrowed is None:
            receipt = await self.writer.delete(request.user_id, list(request.message_ids))
        else:
            receipt = await self.writer.delete_matching(request.user_id, narrowed)
        self.audit.removed(
            context, "delete" if narrowed is None else "delete-matching", request.user_id, receipt.deleted
        )
        return receipt

    async def _erase(self, user_id: str, context: CallContext) -> Erased:
        erased = await self.writer.erase(user_id)
        self.audit.removed(context, "erase", user_id, erased.deleted)
        return erased

    async def _write_in_turn(self, batch: Batch, context: CallContext) -> Written:
        """Store a batch of an import; where too much is queued, wait for room within the deadline.

        A back-fill has nobody who waits for it, and its client could only send everything again.
        """
        while True:
            try:
                return await self._write("import", batch, context)
            except Fault as fault:
                pause_s = fault.retry_after_s or 0.0
                # Twice: the client has to hear of it before its deadline.
                if fault.reason != Reason.ERROR_REASON_OVERLOADED or context.remaining_s() <= 2 * pause_s:
                    raise
                await asyncio.sleep(pause_s)
