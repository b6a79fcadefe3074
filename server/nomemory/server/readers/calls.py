"""What a reader and the writer's process ask each other for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from nomemory.server.api.host_interceptors import MakeInterceptors, no_interceptors
from nomemory.server.listen_address import Addresses
from nomemory.server.settings import Settings
from nomemory.server.vector.active_index import VectorSpace


@dataclass(frozen=True, slots=True)
class Ask:
    """Call a part that only the writer's process has. Answer: what the part answers.

    Attributes:
        part: a field of `WriterServices`, or with `space` one of `VectorSpace`.
        method: of the part.
        arguments: those by position.
        named: those by name.
        space: the vector space that the part belongs to.
    """

    part: str
    method: str
    arguments: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)
    space: str = ""


@dataclass(frozen=True, slots=True)
class GetAssignment:
    """Ask what to serve, and where. Answer: Assignment, once the writer has everything that a reader opens."""


@dataclass(frozen=True, slots=True)
class GetSamples:
    """Asked of a reader: what has it counted? Answer: Samples."""


@dataclass(frozen=True, slots=True)
class SpaceDescription:
    """What a reader knows of a vector space without calling the writer.

    Asked of a reader: answer further reads from that space. Answered when no read uses the former one.

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
class Assignment:
    """What a reader serves, and where. The settings cross the pipe, not a command line: they may hold secrets.

    Attributes:
        interceptors: makes the host's own. It travels by its name, so the reader imports the module that it is in.
    """

    settings: Settings
    addresses: Addresses
    space: SpaceDescription
    interceptors: MakeInterceptors = no_interceptors
