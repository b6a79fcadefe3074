"""The IngestService, which writes, imports and deletes messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from nomemory.server.api.audit import Action, AuditLog
from nomemory.server.api.call import CallContext
from nomemory.server.api.identity.access import RequiredScopes
from nomemory.server.api.identity.caller import Scope
from nomemory.server.api.service import ServedMethod
from nomemory.server.api.services.erasure_residues import list_erasure_residues
from nomemory.server.api.services.import_tally import ImportTally
from nomemory.server.api.services.index_status import IndexStatusReporter
from nomemory.server.api.validation.ingest_requests import (
    WriteBatch,
    decode_delete,
    decode_import,
    decode_user,
    decode_write,
)
from nomemory.server.api.write_tokens import WriteTokens
from nomemory.server.faults import Fault, Reason
from nomemory.server.message_filter import Filter
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.semantic.active_index import ActiveSpace
from nomemory.server.store.protocol import LogWriter
from nomemory.server.store.results import DeletionReceipt, ErasureReceipt, WriteReceipt
from nomemory.v1 import ingest_service_pb2 as pb

_REJECTIONS_MAX: Final = 1000
"""Maximum number of rejections that the response of an import lists."""


_Result = TypeVar("_Result")
_running_tasks: Final = set[asyncio.Task[Any]]()
"""Strong references to running tasks. The event loop keeps only weak references."""


async def run_to_completion(operation: Coroutine[Any, Any, _Result]) -> _Result:
    """Await an operation that continues even if the caller is cancelled, and return its result."""
    task = asyncio.create_task(operation)
    _running_tasks.add(task)
    task.add_done_callback(_running_tasks.discard)
    return await asyncio.shield(task)


@dataclass(frozen=True, slots=True)
class IngestService:
    """Serves `nomemory.v1.IngestService`."""

    writer: LogWriter
    status_reporter: IndexStatusReporter
    tokens: WriteTokens
    spaces: ActiveSpace
    settings: Settings
    full_name: str = "nomemory.v1.IngestService"

    def methods(self) -> Mapping[str, ServedMethod]:
        """Return the methods of the service by their short names."""
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
    def audit(self) -> AuditLog:
        """The audit log."""
        return AuditLog(is_on=self.settings.server.audit_log)

    async def write_messages(self, request: pb.WriteMessagesRequest, context: CallContext) -> pb.WriteMessagesResponse:
        """Store a batch of messages atomically."""
        batch = await decode_write(request, self.settings, self.spaces.current_space.embedder.dimension)
        written = await self._write("write", batch, context)
        results = [
            pb.WriteResult(message_id=message_id, outcome=pb.WriteOutcome.Value(f"WRITE_OUTCOME_{outcome.name}"))
            for message_id, outcome in zip(written.message_ids, written.outcomes, strict=True)
        ]
        return pb.WriteMessagesResponse(results=results, write_token=self.tokens.issue(written.sequence))

    async def import_messages(
        self, requests: AsyncIterator[pb.ImportMessagesRequest], context: CallContext
    ) -> pb.ImportMessagesResponse:
        """Store a stream of batches.

        The import skips invalid and conflicting messages, and reports them in the response.
        """
        tally = ImportTally(_REJECTIONS_MAX)
        try:
            async for request in requests:
                batch = await decode_import(request, self.settings, self.spaces.current_space.embedder.dimension)
                written = await self._write_with_retries(batch, context)
                tally.add_batch(batch, written, size=len(request.messages))
        except Fault as fault:
            fault.metadata = {**fault.metadata, **tally.build_error_metadata()}
            raise
        tally.response.write_token = self.tokens.issue(tally.sequence)
        return tally.response

    async def delete_messages(
        self, request: pb.DeleteMessagesRequest, context: CallContext
    ) -> pb.DeleteMessagesResponse:
        """Delete messages of one user by their ids or by a filter."""
        receipt = await run_to_completion(self._delete(request, decode_delete(request, self.settings), context))
        return pb.DeleteMessagesResponse(
            deleted=receipt.deleted,
            missing_message_ids=receipt.missing,
            write_token=self.tokens.issue(receipt.sequence),
        )

    async def erase_user(self, request: pb.EraseUserRequest, context: CallContext) -> pb.EraseUserResponse:
        """Delete all messages of one user, and list the storage locations that still contain their bytes."""
        user_id = decode_user(request.user_id, self.settings, required=True)
        erased = await run_to_completion(self._erase(user_id, context))
        response = pb.EraseUserResponse(
            deleted=erased.deleted,
            sequence=erased.sequence,
            write_token=self.tokens.issue(erased.sequence),
        )
        response.erase_ts.GetCurrentTime()
        if erased.was_known:
            faults = (await self.status_reporter.read_status(user_id)).faults
            is_blocked = any(fault.component == pb.COMPONENT_ERASURE for fault in faults)
            response.residues.extend(list_erasure_residues(self.settings, response.erase_ts, is_blocked=is_blocked))
        return response

    async def get_index_status(
        self, request: pb.GetIndexStatusRequest, context: CallContext
    ) -> pb.GetIndexStatusResponse:
        """Return the status of the message log and the indexes for one user or all users."""
        user_id = decode_user(request.user_id, self.settings, required=False)
        return await self.status_reporter.read_status(user_id or None, context.user_prefix)

    async def _write(self, action: Action, batch: WriteBatch, context: CallContext) -> WriteReceipt:
        """Store a batch and record the write in the audit log, even if the call is cancelled."""

        async def write_and_audit() -> WriteReceipt:
            written = await self.writer.write(
                batch.messages, on_conflict=batch.on_conflict, request_id=batch.request_id
            )
            self.audit.record_write(context, action, batch.messages, written.outcomes)
            return written

        return await run_to_completion(write_and_audit())

    async def _delete(
        self, request: pb.DeleteMessagesRequest, message_filter: Filter | None, context: CallContext
    ) -> DeletionReceipt:
        action: Action
        if message_filter is None:
            action, receipt = "delete", await self.writer.delete(request.user_id, list(request.message_ids))
        else:
            receipt = await self.writer.delete_matching(request.user_id, message_filter)
            action = "delete-matching"
        self.audit.record_deletion(context, action, request.user_id, receipt.deleted)
        return receipt

    async def _erase(self, user_id: str, context: CallContext) -> ErasureReceipt:
        erased = await self.writer.erase(user_id)
        self.audit.record_deletion(context, "erase", user_id, erased.deleted)
        return erased

    async def _write_with_retries(self, batch: WriteBatch, context: CallContext) -> WriteReceipt:
        """Store a batch of an import, with retries until the deadline while the write queue is full.

        An import is not sensitive to latency, and a client has to send a failed import again from the start.
        """
        while True:
            try:
                return await self._write("import", batch, context)
            except Fault as fault:
                pause_s = fault.retry_after_s or 0.0
                # Twice the pause, so that the error reaches the client before its deadline.
                if fault.reason != Reason.ERROR_REASON_OVERLOADED or context.compute_remaining_s() <= 2 * pause_s:
                    raise
                await asyncio.sleep(pause_s)
