"""IngestService: decode, write, encode.

What an import has stored so far is counted, and the receipt of an erasure names the places that still hold bytes. A
deletion goes on to its end, and so does a write, whether or not its caller waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.server.api.audit import Action, Audit
from nomemory.server.api.call import CallContext
from nomemory.server.api.identity.access import RequiredScopes
from nomemory.server.api.identity.caller import Scope
from nomemory.server.api.service import ServedMethod
from nomemory.server.api.services.index_status import Report
from nomemory.server.api.validation.ingest_requests import (
    Batch,
    RefusedMessage,
    decode_delete,
    decode_import,
    decode_user,
    decode_write,
)
from nomemory.server.faults import Fault, Reason, Violation
from nomemory.server.message import Filter
from nomemory.server.runtime.active_faults import ERASURE
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.token_cipher import WriteTokens
from nomemory.server.search.semantic.active_index import ActiveSpace
from nomemory.server.store.commit import CONFLICT
from nomemory.server.store.protocol import Deleted, Erased, LogWriter, Outcome, Written
from nomemory.v1 import ingest_service_pb2 as pb

_REJECTIONS_MAX: Final = 1000
"""Maximum rejections that an import lists."""


@dataclass(slots=True)
class ImportTally:
    """Adds up the batches of an import.

    Attributes:
        rejections_max: how many rejections the response lists at most. It lists the first ones.
        response: the totals so far, without a write token.
        sequence: the latest sequence of the log among the batches.
    """

    rejections_max: int
    response: pb.ImportMessagesResponse = field(default_factory=pb.ImportMessagesResponse)
    sequence: int = 0
    _batches: int = 0
    _messages: int = 0

    def add(self, batch: Batch, written: Written, *, size: int) -> None:
        """Add a stored batch. `size` is the number of messages that it came with, refused ones too."""
        counts = {outcome: written.outcomes.count(outcome) for outcome in Outcome}
        self.response.created += counts[Outcome.CREATED]
        self.response.unchanged += counts[Outcome.UNCHANGED]
        self.response.replaced += counts[Outcome.REPLACED]
        self.response.rejected += counts[Outcome.CONFLICT] + len(batch.refused)
        self._list_rejections([*batch.refused, *_conflicting(batch, written)])
        self.sequence = max(self.sequence, written.sequence)
        self._batches += 1
        self._messages += size

    def so_far(self) -> dict[str, str]:
        """Return what was done, for the fault that ends an import. `batch` is the position of the failed batch."""
        totals = self.response
        done = {"created": totals.created, "unchanged": totals.unchanged, "replaced": totals.replaced}
        counts = {"batch": self._batches, **done, "rejected": totals.rejected}
        return {name: str(count) for name, count in counts.items()}

    def _list_rejections(self, refused: Iterable[RefusedMessage]) -> None:
        room = self.rejections_max - len(self.response.rejections)
        for message in sorted(refused, key=lambda one: one.position)[:room]:
            self.response.rejections.add(
                index=self._messages + message.position,
                message_id=message.message_id,
                reason=Reason.Name(message.reason),
                violations=[f"{violation.field}: {violation.description}" for violation in message.violations],
            )


def _conflicting(batch: Batch, written: Written) -> list[RefusedMessage]:
    reason, violations = Reason.ERROR_REASON_MESSAGE_CONFLICT, (Violation("message_id", CONFLICT),)
    return [
        RefusedMessage(position, message_id, reason, violations)
        for position, message_id, outcome in zip(batch.positions, written.message_ids, written.outcomes, strict=True)
        if outcome is Outcome.CONFLICT
    ]


_LOG = (
    "Pages of log.db and its write-ahead log, the record of deletions, and the ids of the user: until they are wiped."
)
_POSTGRES = (
    "The database keeps what was deleted in the free room of its pages until other rows take it, or VACUUM FULL is "
    "run. Its write-ahead log, archives, standbys and backups keep it, too. The record of deletions, and the ids of "
    "the user: until the indexes of every server have the deletions."
)
_LEXICAL = "Segments of the index: until the messages that live in them are moved out of them."
_EDGE = "Files of the index: until what lives is copied into new ones. Collections not in use: until they are deleted."
_QDRANT = (
    "The Qdrant server keeps deleted points until it optimises their segments, and in its snapshots. Points of a "
    "collection that is not in use stay until that is deleted there."
)
_BACKLOG = "The ids of the user and of the messages: until the vector index has the deletions and they are wiped."
_WAITING = ("log", "vector")
_WAITS = "Erasing vectors waits now (`faults` of GetIndexStatus says for what), so that no time can be promised. "


def residues(settings: Settings, erase_ts: Timestamp, *, waits: bool) -> list[pb.ErasureResidue]:
    """Return the places, and by when they hold nothing any more, where that is in this server's hands.

    Args:
        settings: say which files there are, and how long it may take.
        erase_ts: when the deletion was committed.
        waits: whether vectors cannot be erased now. The log keeps its record of deletions until they can.
    """
    remote = settings.vector.qdrant_url is not None
    wiped = {"log": _LOG, "lexical": _LEXICAL, "backlog": _BACKLOG} | ({} if remote else {"vector": _EDGE})
    others = {"vector": _QDRANT} if remote else {}
    if settings.server.log is not None:
        del wiped["log"]
        others["log"] = _POSTGRES
    if waits:
        others |= {place: _WAITS + wiped.pop(place) for place in _WAITING if place in wiped}
    expire_ts = Timestamp()
    expire_ts.FromNanoseconds(erase_ts.ToNanoseconds() + round(settings.erasure.within_s * 1e9))
    return [
        *(pb.ErasureResidue(place=place, until=until, expire_ts=expire_ts) for place, until in wiped.items()),
        *(pb.ErasureResidue(place=place, until=until) for place, until in others.items()),
    ]


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
        return Audit(is_on=self.settings.server.audit)

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
