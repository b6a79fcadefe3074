"""The calls that a reader makes to the writer's process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import Fault, Reason, Violation
from nomemory.server.listen_address import ListenAddress
from nomemory.server.log.damage import Met
from nomemory.server.log.protocol import OnConflict
from nomemory.server.message import Filter, Message
from nomemory.server.rpc.host_interceptors import MakeInterceptors, no_interceptors
from nomemory.server.settings import Settings


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
    """Search the vector index; the user counts as being queried. Answer: a list of VectorHit."""

    user_id: str
    vector: Vector
    narrowed: Filter
    limit: int


@dataclass(frozen=True, slots=True)
class FetchVectors:
    """Return the stored vectors of a user's messages. Answer: a dict of Vector by message id."""

    user_id: str
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EmbedQuery:
    """Embed a query. Answer: a Vector."""

    text: str


@dataclass(frozen=True, slots=True)
class EmbedDocuments:
    """Embed documents. Answer: a list of Vector."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoteQuery:
    """Remember that this user is being queried. No answer."""

    user_id: str


@dataclass(frozen=True, slots=True)
class GetStatus:
    """Report how far the log and each index are, as `Report` does. Answer: bytes of a GetIndexStatusResponse."""

    user_id: str | None
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class NoteDamage:
    """Remember damage to the log that a read has met. No answer."""

    met: Met


Changing = Write | Delete | DeleteMatching | Erase
"""What changes the log."""

WriterCall = Changing | SearchVectors | FetchVectors | EmbedQuery | EmbedDocuments | NoteQuery | GetStatus | NoteDamage


@dataclass(frozen=True, slots=True)
class EmbedderDescription:
    """What a reader knows of the embedder without calling it."""

    kind: str
    model: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a reader serves, and where. The settings cross the pipe, not a command line: they may hold secrets.

    Attributes:
        interceptors: makes the host's own. It travels by its name, so the reader imports the module that it is in.
    """

    settings: Settings
    address: ListenAddress
    embedder: EmbedderDescription
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
