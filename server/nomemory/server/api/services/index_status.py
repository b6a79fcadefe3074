"""The response to GetIndexStatus: the status of the message log and of the indexes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.server.faults import Fault, Reason
from nomemory.server.indexing.vector.indexed_spaces import IndexedSpace, IndexedSpaces
from nomemory.server.runtime.active_faults import (
    LEXICAL_INDEXER,
    MESSAGE_LOG,
    PREVIOUS_MODEL,
    ActiveFault,
    ActiveFaults,
)
from nomemory.server.runtime.processes.supervisor import JobFault
from nomemory.server.search.lexical.protocol import LexicalProgress
from nomemory.server.store.damage import DamageRegistry
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.protocol import LogReader
from nomemory.server.store.results import LogCounts
from nomemory.v1 import ingest_service_pb2 as pb

LEXICAL_JOB = "lexical-indexer"
"""The name of the lexical indexer's job in the supervisor."""

_DAMAGED_SEQUENCES_MAX = 100
"""Maximum number of sequence numbers of damaged messages in a response."""

_EMBEDDER_KINDS: Final = {
    "none": pb.EMBEDDER_KIND_NONE,
    "local": pb.EMBEDDER_KIND_LOCAL,
    "openai": pb.EMBEDDER_KIND_OPENAI,
}
"""The kinds of the built-in embedders, by name. Other packages can add embedders."""

_COMPONENTS: Final = frozenset(pb.Component.keys())
_FAULT_KINDS: Final = frozenset(pb.FaultKind.keys())


class IndexStatusReporter(Protocol):
    """Reports the status of the message log and of the indexes."""

    async def read_status(self, user_id: str | None, prefix: str = "") -> pb.GetIndexStatusResponse:
        """Return the status for a user, or for all users whose stored ids start with `prefix` if `user_id` is None.

        No sequence number in the status exceeds the sequence number of the latest change to the messages of these
        users.
        """


@dataclass(frozen=True, slots=True)
class LocalStatusReporter:
    """Reports the status of the message log and the indexes of this process.

    Attributes:
        lexical: reports how far the lexical index has applied the changes of the message log.
        job_fault: returns the recent failures of a background job by its name; None if the job is healthy.
        faults: the active faults of the server's components.
        notice: a message for operators about the lexical index, such as a rebuild at startup; empty if there is none.
        damage_registry: the damaged messages that were found in the message log.
    """

    log: LogReader
    lexical: LexicalProgress
    spaces: IndexedSpaces
    job_fault: Callable[[str], JobFault | None]
    faults: ActiveFaults
    notice: str
    damage_registry: DamageRegistry

    async def read_status(self, user_id: str | None, prefix: str = "") -> pb.GetIndexStatusResponse:
        """Return the status for a user, or for all users whose stored ids start with `prefix` if `user_id` is None.

        Raises:
            Fault: STORAGE_UNAVAILABLE, with the active fault of the message log.
        """
        try:
            return await self._read_status(user_id, prefix)
        except Fault as fault:
            log_fault = self._find_active_fault(MESSAGE_LOG)
            if fault.reason != Reason.ERROR_REASON_STORAGE_UNAVAILABLE or log_fault is None:
                raise
            raise _add_log_fault(fault, log_fault) from fault

    async def _read_status(self, user_id: str | None, prefix: str) -> pb.GetIndexStatusResponse:
        counts = await self.log.count_users_and_messages(user_id, prefix)
        active, next_ = self.spaces.active, self.spaces.next
        status = pb.GetIndexStatusResponse(
            log=self._build_log_status(user_id, prefix, counts),
            lexical=await self._build_lexical_status(user_id, prefix, counts.sequence),
            vector=await self._build_vector_status(active, user_id, prefix, counts.sequence),
            embedder=_build_embedder_status(active),
            faults=map(_encode_fault, self.faults.list_active_faults()),
        )
        if next_ is not None:
            status.next_vector.CopyFrom(await self._build_vector_status(next_, user_id, prefix, counts.sequence))
            status.next_embedder.CopyFrom(_build_embedder_status(next_))
        return status

    def _build_log_status(self, user_id: str | None, prefix: str, counts: LogCounts) -> pb.LogStatus:
        damaged = self.damage_registry.list_damaged_messages(user_id, prefix)
        status = pb.LogStatus(
            sequence=counts.sequence, messages=counts.messages, users=counts.users, damaged=len(damaged)
        )
        if self.damage_registry.checked_at is not None:
            status.check_ts.FromMilliseconds(int(self.damage_registry.checked_at * 1000))
        if not prefix:
            status.error = self.damage_registry.file_damage
            status.damaged_sequences.extend(message.sequence for message in damaged[:_DAMAGED_SEQUENCES_MAX])
        return status

    async def _build_lexical_status(self, user_id: str | None, prefix: str, sequence: int) -> pb.IndexStatus:
        applied, fault = (
            self.lexical.applied_sequence,
            self._find_active_fault(LEXICAL_INDEXER) or self.job_fault(LEXICAL_JOB),
        )
        return pb.IndexStatus(
            name="lexical",
            checkpoint=min(applied, sequence),
            pending=await self.log.count_pending(FeedPosition.from_sequence(applied), user_id, prefix),
            error=fault.kind if fault else "",
            error_ts=_to_timestamp(fault.since_s) if fault else None,
            notice=self.notice,
        )

    async def _build_vector_status(
        self, indexed: IndexedSpace, user_id: str | None, prefix: str, sequence: int
    ) -> pb.IndexStatus:
        vector = await indexed.indexer.status(user_id, prefix)
        fault = indexed.indexer.fault or self._find_active_fault(*indexed.components) or indexed.job_fault()
        return pb.IndexStatus(
            name=indexed.space.name,
            checkpoint=min(await self._read_applied_sequence(vector.checkpoint, user_id), sequence),
            pending=vector.pending + await self.log.count_pending(vector.feed_position, user_id, prefix),
            dead_letters=vector.dead_letters,
            dead_letter_message_ids=vector.dead_letter_ids,
            error=fault.kind if fault else "",
            error_ts=_to_timestamp(fault.since_s) if fault else None,
            notice=self.spaces.notice if indexed is self.spaces.active else "",
        )

    async def _read_applied_sequence(self, applied: FeedPosition, user_id: str | None) -> int:
        return (
            applied.compute_covered_sequence(await self.log.read_end_position())
            if user_id is None
            else applied.get_user_sequence(user_id)
        )

    def _find_active_fault(self, *components: str) -> ActiveFault | None:
        """Return the oldest active fault of the given components."""
        active = (fault for fault in self.faults.list_active_faults() if fault.component in components)
        return next(active, None)


def _add_log_fault(fault: Fault, log_fault: ActiveFault) -> Fault:
    """Return a copy of a fault that also describes the active fault of the message log."""
    since = datetime.fromtimestamp(log_fault.since_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Fault(
        fault.reason,
        f"{fault.message}. Active fault: {log_fault.component} {log_fault.kind} since {since} ({log_fault.detail})",
        metadata={**fault.metadata, "component": log_fault.component, "fault": log_fault.kind, "since": since},
        retry_after_s=fault.retry_after_s,
    )


def _build_embedder_status(indexed: IndexedSpace) -> pb.EmbedderStatus:
    model = indexed.space.embedder
    return pb.EmbedderStatus(
        kind=_EMBEDDER_KINDS.get(model.kind, pb.EMBEDDER_KIND_PLUGIN),
        model=model.model,
        dimension=model.dimension,
        texts_embedded=indexed.indexer.texts_embedded,
    )


def _encode_fault(fault: ActiveFault) -> pb.ServerFault:
    name = fault.component.removeprefix(PREVIOUS_MODEL)
    component, kind = f"COMPONENT_{name.replace('-', '_').upper()}", f"FAULT_KIND_{fault.kind}"
    return pb.ServerFault(
        component=pb.Component.Value(component if component in _COMPONENTS else "COMPONENT_UNSPECIFIED"),
        kind=pb.FaultKind.Value(kind if kind in _FAULT_KINDS else "FAULT_KIND_UNSPECIFIED"),
        start_ts=_to_timestamp(fault.since_s),
        detail=fault.detail,
        previous_model=name != fault.component,
    )


def _to_timestamp(seconds: float) -> Timestamp:
    return Timestamp(seconds=int(seconds), nanos=int(seconds % 1 * 1e6) * 1000)
