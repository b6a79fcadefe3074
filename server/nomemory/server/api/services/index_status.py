"""How far the log and each index are, for GetIndexStatus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.server.indexing.vector.indexed_spaces import IndexedSpace, IndexedSpaces
from nomemory.server.runtime.active_faults import LEXICAL_INDEXER, StandingFault, StandingFaults
from nomemory.server.runtime.processes.supervisor import JobFault
from nomemory.server.search.lexical.protocol import LexicalProgress
from nomemory.server.store.damage import LogDamage
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.protocol import LogReader
from nomemory.server.store.results import LogCounts
from nomemory.v1 import ingest_service_pb2 as pb

LEXICAL_JOB = "lexical-indexer"
"""What the indexer is called in the supervisor."""

_NAMED_MAX = 100
"""Damaged messages whose sequences are named."""


class Report(Protocol):
    """Reports how far the log and each index are."""

    async def status(self, user_id: str | None, prefix: str = "") -> pb.GetIndexStatusResponse:
        """Report on one user's messages; for None on those of all users whose ids begin with a prefix.

        No sequence exceeds that of the latest change in them.
        """


@dataclass(frozen=True, slots=True)
class StatusReport:
    """Implements `Report` from the parts in this process.

    Attributes:
        job_fault: returns the error that a job failed with lately, by its name; None if it is healthy.
        faults: what is wrong with the parts of the server.
        notice: what happened to the lexical index at the start, in words.
        damage: what is known to be damaged in the log.
    """

    log: LogReader
    lexical: LexicalProgress
    spaces: IndexedSpaces
    job_fault: Callable[[str], JobFault | None]
    faults: StandingFaults
    notice: str
    damage: LogDamage

    async def status(self, user_id: str | None, prefix: str = "") -> pb.GetIndexStatusResponse:
        """Report on one user's messages; for None on those of all users whose ids begin with a prefix."""
        counts = await self.log.counts(user_id, prefix)
        active, next_ = self.spaces.active, self.spaces.next
        status = pb.GetIndexStatusResponse(
            log=self._log(user_id, prefix, counts),
            lexical=await self._lexical(user_id, prefix, counts.sequence),
            vector=await self._vector(active, user_id, prefix, counts.sequence),
            embedder=_embedder(active),
            faults=map(_encoded, self.faults.all()),
        )
        if next_ is not None:
            status.next_vector.CopyFrom(await self._vector(next_, user_id, prefix, counts.sequence))
            status.next_embedder.CopyFrom(_embedder(next_))
        return status

    def _log(self, user_id: str | None, prefix: str, counts: LogCounts) -> pb.LogStatus:
        damaged = self.damage.messages(user_id, prefix)
        status = pb.LogStatus(
            sequence=counts.sequence, messages=counts.messages, users=counts.users, damaged=len(damaged)
        )
        if self.damage.checked_at is not None:
            status.check_ts.FromMilliseconds(int(self.damage.checked_at * 1000))
        if not prefix:
            status.fault = self.damage.file
            status.damaged_sequences.extend(one.sequence for one in damaged[:_NAMED_MAX])
        return status

    async def _lexical(self, user_id: str | None, prefix: str, sequence: int) -> pb.IndexStatus:
        applied, fault = self.lexical.applied, self._standing(LEXICAL_INDEXER) or self.job_fault(LEXICAL_JOB)
        return pb.IndexStatus(
            name="lexical",
            checkpoint=min(applied, sequence),
            pending=await self.log.pending(FeedPosition.at(applied), user_id, prefix),
            fault=fault.kind if fault else "",
            error_ts=_timestamp(fault.since_s) if fault else None,
            notice=self.notice,
        )

    async def _vector(self, one: IndexedSpace, user_id: str | None, prefix: str, sequence: int) -> pb.IndexStatus:
        vector = await one.indexer.status(user_id, prefix)
        fault = one.indexer.fault or self._standing(*one.parts) or one.job_fault()
        return pb.IndexStatus(
            name=one.space.name,
            checkpoint=min(await self._checkpoint(vector.checkpoint, user_id), sequence),
            pending=vector.pending + await self.log.pending(vector.fed, user_id, prefix),
            dead_letters=vector.dead_letters,
            dead_letter_message_ids=vector.dead_letter_ids,
            fault=fault.kind if fault else "",
            error_ts=_timestamp(fault.since_s) if fault else None,
            notice=self.spaces.notice if one is self.spaces.active else "",
        )

    async def _checkpoint(self, applied: FeedPosition, user_id: str | None) -> int:
        return applied.settled(await self.log.reached()) if user_id is None else applied.of_user(user_id)

    def _standing(self, *parts: str) -> StandingFault | None:
        """Return the oldest fault of some parts."""
        standing = (fault for fault in self.faults.all() if fault.part in parts)
        return next(standing, None)


def _embedder(one: IndexedSpace) -> pb.EmbedderStatus:
    model = one.space.embedder
    return pb.EmbedderStatus(
        kind=model.kind, model=model.model, dimension=model.dimension, texts_embedded=one.indexer.texts_embedded
    )


def _encoded(fault: StandingFault) -> pb.ServerFault:
    return pb.ServerFault(part=fault.part, kind=fault.kind, since=_timestamp(fault.since_s), detail=fault.detail)


def _timestamp(seconds: float) -> Timestamp:
    return Timestamp(seconds=int(seconds), nanos=int(seconds % 1 * 1e6) * 1000)
