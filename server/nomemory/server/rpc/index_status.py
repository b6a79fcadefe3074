"""How far the log and each index are, for GetIndexStatus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.server.embedding.protocol import Embedder
from nomemory.server.lexical.protocol import LexicalProgress
from nomemory.server.log.damage import LogDamage, Met
from nomemory.server.log.protocol import LogCounts, LogReader
from nomemory.server.processes.supervisor import JobFault
from nomemory.server.standing_faults import (
    LEXICAL_INDEXER,
    QDRANT,
    VECTOR_ENGINE,
    VECTOR_INDEX,
    StandingFault,
    StandingFaults,
)
from nomemory.server.vector.indexer import VectorIndexer
from nomemory.v1 import ingest_service_pb2 as pb

LEXICAL_JOB = "lexical-indexer"
VECTOR_JOB = "vector-indexer"
"""The names of the indexers in the supervisor."""

_NAMED_MAX = 100
"""Damaged messages whose sequences are named."""


class Report(Protocol):
    """Reports how far the log and each index are, whichever process has them."""

    async def status(self, user_id: str | None, prefix: str = "") -> pb.GetIndexStatusResponse:
        """Report on one user's messages; for None on those of all users whose ids begin with a prefix.

        No sequence exceeds that of the latest change in them.
        """

    def note_damage(self, met: Met) -> None:
        """Take note of damage to the log that a read of another process has met."""


class Notices(NamedTuple):
    """What happened to the indexes when the server started, in words; empty if nothing did."""

    lexical: str = ""
    vector: str = ""


@dataclass(frozen=True, slots=True)
class StatusReport:
    """Implements `Report` from the parts in this process.

    Attributes:
        job_fault: returns the error that a job failed with lately, by its name; None if it is healthy.
        faults: what is wrong with the parts of the server.
        notices: what happened to the indexes at the start.
        damage: what is known to be damaged in the log.
    """

    log: LogReader
    lexical: LexicalProgress
    vector: VectorIndexer
    embedder: Embedder
    job_fault: Callable[[str], JobFault | None]
    faults: StandingFaults
    notices: Notices
    damage: LogDamage

    async def status(self, user_id: str | None, prefix: str = "") -> pb.GetIndexStatusResponse:
        """Report on one user's messages; for None on those of all users whose ids begin with a prefix."""
        counts = await self.log.counts(user_id, prefix)
        return pb.GetIndexStatusResponse(
            log=self._log(user_id, prefix, counts),
            lexical=await self._lexical(user_id, prefix, counts.sequence),
            vector=await self._vector(user_id, prefix, counts.sequence),
            embedder=pb.EmbedderStatus(
                kind=self.embedder.kind,
                model=self.embedder.model,
                dimension=self.embedder.dimension,
                texts_embedded=self.vector.texts_embedded,
            ),
            faults=map(_encoded, self.faults.all()),
        )

    def note_damage(self, met: Met) -> None:
        """Take note of damage to the log that a read of another process has met."""
        self.damage.note(met)

    def _log(self, user_id: str | None, prefix: str, counts: LogCounts) -> pb.LogStatus:
        damaged = self.damage.messages(user_id, prefix)
        status = pb.LogStatus(
            sequence=counts.sequence, messages=counts.messages, users=counts.users, damaged=len(damaged)
        )
        if self.damage.checked_at is not None:
            status.checked_ts.FromMilliseconds(int(self.damage.checked_at * 1000))
        if not prefix:
            status.fault = self.damage.file
            status.damaged_sequences.extend(one.sequence for one in damaged[:_NAMED_MAX])
        return status

    async def _lexical(self, user_id: str | None, prefix: str, sequence: int) -> pb.IndexStatus:
        applied, fault = self.lexical.applied, self._fault(LEXICAL_JOB, LEXICAL_INDEXER)
        return pb.IndexStatus(
            name="lexical",
            checkpoint=min(applied, sequence),
            pending=await self.log.pending(applied, user_id, prefix),
            fault=fault.kind if fault else "",
            fault_since=_timestamp(fault.since_s) if fault else None,
            notice=self.notices.lexical,
        )

    async def _vector(self, user_id: str | None, prefix: str, sequence: int) -> pb.IndexStatus:
        vector = self.vector.status(user_id, prefix)
        fault = self.vector.fault or self._fault(VECTOR_JOB, VECTOR_ENGINE, VECTOR_INDEX, QDRANT)
        return pb.IndexStatus(
            name=self.vector.collection,
            checkpoint=min(vector.checkpoint, sequence),
            pending=vector.pending + await self.log.pending(vector.fed, user_id, prefix),
            parked=vector.parked,
            parked_message_ids=vector.parked_ids,
            fault=fault.kind if fault else "",
            fault_since=_timestamp(fault.since_s) if fault else None,
            notice=self.notices.vector,
        )

    def _fault(self, job: str, *parts: str) -> JobFault | StandingFault | None:
        """Return what is wrong with an index: the oldest fault of its parts, or the error of its job."""
        standing = (fault for fault in self.faults.all() if fault.part in parts)
        return next(standing, None) or self.job_fault(job)


def _encoded(fault: StandingFault) -> pb.ServerFault:
    return pb.ServerFault(part=fault.part, kind=fault.kind, since=_timestamp(fault.since_s), detail=fault.detail)


def _timestamp(seconds: float) -> Timestamp:
    return Timestamp(seconds=int(seconds), nanos=int(seconds % 1 * 1e6) * 1000)
