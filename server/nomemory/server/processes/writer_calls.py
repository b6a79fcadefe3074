"""What a reader asks the writer's process for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from nomemory.server.faults import Fault, Reason, Violation
from nomemory.server.listen_address import ListenAddress
from nomemory.server.log.protocol import OnConflict
from nomemory.server.message import Filter, Message
from nomemory.server.rpc.host_interceptors import MakeInterceptors, no_interceptors
from nomemory.server.settings import Settings
from nomemory.server.vector.protocol import Vector


@dataclass(frozen=True, slots=True)
class Join:
    """Say what to do. Answer: Orders, once the writer has everything that a reader opens."""


@dataclass(frozen=True, slots=True)
class Serving:
    """Calls are answered from now on. No answer."""


@dataclass(frozen=True, slots=True)
class Write:
    """Store a batch. Answer: Written."""

    messages: tuple[Message, ...]
    on_conflict: OnConflict


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete messages of one user. Answer: Deleted."""

    user_id: str
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SearchVectors:
    """Search the vector index; the user counts as being queried. Answer: a list of VectorHit."""

    user_id: str
    vector: Vector
    narrowed: Filter
    limit: int


@dataclass(frozen=True, slots=True)
class EmbedQuery:
    """Embed what is searched for. Answer: a Vector."""

    text: str


@dataclass(frozen=True, slots=True)
class EmbedDocuments:
    """Embed what is stored. Answer: a list of Vector."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoteQuery:
    """Remember that this user is being queried. No answer."""

    user_id: str


@dataclass(frozen=True, slots=True)
class Status:
    """Say how far the log and each index are, for one user or for all. Answer: bytes of a GetIndexStatusResponse."""

    user_id: str | None


Call = Write | Delete | SearchVectors | EmbedQuery | EmbedDocuments | NoteQuery | Status
Request = Join | Serving | Call


@dataclass(frozen=True, slots=True)
class EmbedderFacts:
    """What there is to know of the embedder without asking it to embed."""

    kind: str
    model: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Orders:
    """What a reader has to serve, and where. It learns the settings from the pipe: they may hold secrets.

    Attributes:
        interceptors: makes the host's own. It travels by its name, so the reader imports the module that it is in.
    """

    settings: Settings
    address: ListenAddress
    embedder: EmbedderFacts
    interceptors: MakeInterceptors = no_interceptors


@dataclass(frozen=True, slots=True)
class Refusal:
    """A fault on its way through the pipe."""

    reason: Reason.ValueType
    message: str
    violations: tuple[Violation, ...]
    metadata: Mapping[str, str]
    retry_after_s: float | None

    @classmethod
    def of(cls, fault: Fault) -> Self:
        """Take a fault apart."""
        return cls(fault.reason, fault.message, fault.violations, dict(fault.metadata), fault.retry_after_s)

    def fault(self) -> Fault:
        """Put it together again."""
        return Fault(
            self.reason,
            self.message,
            violations=self.violations,
            metadata=self.metadata,
            retry_after_s=self.retry_after_s,
        )
