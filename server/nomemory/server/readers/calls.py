"""The calls that a reader makes to the writer's process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import Fault, Reason, Violation
from nomemory.server.listen_address import Addresses
from nomemory.server.log.damage import Damage
from nomemory.server.log.protocol import OnConflict
from nomemory.server.message import Filter, Message
from nomemory.server.rpc.host_interceptors import MakeInterceptors, no_interceptors
from nomemory.server.settings import Settings
from nomemory.server.vector.space import VectorSpace


@dataclass(frozen=True, slots=True)
class GetAssignment:
    """Ask what to serve, and where. Answer: Assignment, once the writer has everything that a reader opens."""


@dataclass(frozen=True, slots=True)
class Write:
    """Store a batch. Answer: Written."""

    messages: tuple[Message, ...]
    on_conflict: OnConflict
    request_id: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete messages of one user. Answer: Deleted."""

    user_id: str
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeleteMatching:
    """Delete whatever a filter admits of one user. Answer: Deleted."""

    user_id: str
    narrowed: Filter


@dataclass(frozen=True, slots=True)
class Erase:
    """Delete everything of one user. Answer: Erased."""

    user_id: str


@dataclass(frozen=True, slots=True)
class SearchVectors:
    """Search the index of a vector space; the user counts as being queried. Answer: a list of VectorHit."""

    space: str
    user_id: str
    vector: Vector
    narrowed: Filter
    limit: int


@dataclass(frozen=True, slots=True)
class FetchVectors:
    """Return the stored vectors of a user's messages. Answer: a dict of Vector by message id."""

    space: str
    user_id: str
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EmbedQuery:
    """Embed a query. Answer: a Vector."""

    space: str
    text: str


@dataclass(frozen=True, slots=True)
class EmbedDocuments:
    """Embed documents. Answer: a list of Vector."""

    space: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoteQuery:
    """Remember that this user is being queried. No answer."""

    space: str
    user_id: str


@dataclass(frozen=True, slots=True)
class LookAtLog:
    """Look at the log now, for an index that somebody waits for. No answer."""

    space: str


@dataclass(frozen=True, slots=True)
class GetStatus:
    """Report how far the log and each index are, as `Report` does. Answer: bytes of a GetIndexStatusResponse."""

    user_id: str | None
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class NoteDamage:
    """Remember damage to the log that a read has met. No answer."""

    met: Damage


@dataclass(frozen=True, slots=True)
class GetMetrics:
    """Tell the figures of the whole server. Answer: bytes, as Prometheus reads them."""


@dataclass(frozen=True, slots=True)
class ExportSpans:
    """Send spans to the collector. Answer: Delivery."""

    batch: bytes
    spans: int


@dataclass(frozen=True, slots=True)
class GetSamples:
    """Asked of a reader: what has it counted? Answer: Samples."""


Changing = Write | Delete | DeleteMatching | Erase
"""What changes the log."""

AboutMeaning = SearchVectors | FetchVectors | EmbedQuery | EmbedDocuments | NoteQuery | LookAtLog
"""What is asked of a vector space, which each of them names."""

WriterCall = Changing | AboutMeaning | GetStatus | GetMetrics | ExportSpans | NoteDamage


@dataclass(frozen=True, slots=True)
class SpaceDescription:
    """What a reader knows of a vector space without calling the writer.

    Attributes:
        name: of the space.
        kind: of its embedder.
        model: of its embedder.
        dimension: of its vectors.
        backlog: the file that tells how far its index is.
    """

    name: str
    kind: str
    model: str
    dimension: int
    backlog: Path

    @classmethod
    def of(cls, space: VectorSpace, backlog: Path) -> Self:
        """Describe a space."""
        return cls(space.name, space.embedder.kind, space.embedder.model, space.embedder.dimension, backlog)


@dataclass(frozen=True, slots=True)
class ReplaceSpace:
    """Asked of a reader: answer further reads from another vector space. Answered when no read uses the former one."""

    space: SpaceDescription


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a reader serves, and where. The settings cross the pipe, not a command line: they may hold secrets.

    Attributes:
        interceptors: makes the host's own. It travels by its name, so the reader imports the module that it is in.
    """

    settings: Settings
    addresses: Addresses
    space: SpaceDescription
    interceptors: MakeInterceptors = no_interceptors


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """A `Fault` as it crosses the pipe: exceptions with several arguments do not survive pickling."""

    reason: Reason.ValueType
    message: str
    violations: tuple[Violation, ...]
    metadata: Mapping[str, str]
    retry_after_s: float | None

    @classmethod
    def of(cls, fault: Fault) -> Self:
        """Return the record of a fault."""
        return cls(fault.reason, fault.message, fault.violations, dict(fault.metadata), fault.retry_after_s)

    def fault(self) -> Fault:
        """Return the fault of the record."""
        return Fault(
            self.reason,
            self.message,
            violations=self.violations,
            metadata=self.metadata,
            retry_after_s=self.retry_after_s,
        )
