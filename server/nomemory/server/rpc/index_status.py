"""How far the log and each index are, for GetIndexStatus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from nomemory.server.embedding.protocol import Embedder
from nomemory.server.lexical.protocol import LexicalProgress
from nomemory.server.log.damage import LogDamage
from nomemory.server.log.protocol import LogCounts, LogReader
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


class Notices(NamedTuple):
    """What happened to the indexes when the server started, in words; empty if nothing did."""

    lexical: str = ""
    vector: str = ""


@dataclass(frozen=True, slots=True)
class StatusReport:
    """Implements `Report` from the parts in this process.

    Attributes:
        job_fault: returns the kind of error that a job failed with lately, by its name; empty if it is healthy.
        notices: what happened to the indexes at the start.
        damage: what is known to be damaged in the log.
    """

    log: LogReader
    lexical: LexicalProgress
    vector: VectorIndexer
    embedder: Embedder
    job_fault: Callable[[str], str]
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
        )

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
        applied = self.lexical.applied
        return pb.IndexStatus(
            name="lexical",
            checkpoint=min(applied, sequence),
            pending=await self.log.pending(applied, user_id, prefix),
            fault=self.job_fault(LEXICAL_JOB),
            notice=self.notices.lexical,
        )

    async def _vector(self, user_id: str | None, prefix: str, sequence: int) -> pb.IndexStatus:
        vector = self.vector.status(user_id, prefix)
        return pb.IndexStatus(
            name=self.vector.collection,
            checkpoint=min(vector.checkpoint, sequence),
            pending=vector.pending + await self.log.pending(vector.fed, user_id, prefix),
            parked=vector.parked,
            parked_message_ids=vector.parked_ids,
            fault=self.vector.fault or self.job_fault(VECTOR_JOB),
            notice=self.notices.vector,
        )
