"""The calls of the embedded engine's worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nomemory.server.embedding.vector import Vector
from nomemory.server.vector.points import Condition
from nomemory.server.vector.protocol import VectorPoint


@dataclass(frozen=True, slots=True)
class Upsert:
    """Store points, whose vectors have length one. Answer: None."""

    points: tuple[VectorPoint, ...]


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove the points of a message from a part on. Answer: None."""

    user_id: str
    message_id: str
    from_part: int


@dataclass(frozen=True, slots=True)
class RemoveVersions:
    """Remove points of some versions of a user's messages. Answer: whether there may be more."""

    user_id: str
    sequences: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GetUsers:
    """Name the users of whom there are points. Answer: a set of str."""


@dataclass(frozen=True, slots=True)
class NearestPoints:
    """Find the points nearest to a vector. Answer: up to `limit` tuples `(score, ts, sequence)`, best first."""

    vector: Vector
    conditions: tuple[Condition, ...]
    limit: int


@dataclass(frozen=True, slots=True)
class GetVectors:
    """Read the vectors of a version of a message. Answer: a list of Vector, of its parts from the first on."""

    user_id: str
    message_id: str
    sequence: int


@dataclass(frozen=True, slots=True)
class FirstVectors:
    """Return stored vectors. Answer: a dict of the vectors of messages' first parts, by message id."""

    user_id: str
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadPoints:
    """Read what is stored of some users, as far as one piece of work goes. Answer: PointsRead.

    Attributes:
        offset: the point of the first user to go on at; None: the first.
        with_vectors: whether the vectors are looked at, too.
    """

    user_ids: tuple[str, ...]
    offset: str | None
    with_vectors: bool


@dataclass(frozen=True, slots=True)
class PointsRead:
    """The sequences of the sound points, for the first of the users that were asked for; one for each point.

    Attributes:
        offset: where the last of these users goes on; None if that was all of them.
        unsound: how many points cannot be used.
    """

    sequences: list[list[int]]
    offset: str | None
    unsound: int


@dataclass(frozen=True, slots=True)
class ReadWhole:
    """Read points of all users, as they are stored, in the order of their ids. Answer: WholeRead.

    Attributes:
        offset: the point to go on at; None: the first.
        most: most points.
    """

    offset: str | None
    most: int


@dataclass(frozen=True, slots=True)
class WholePoint:
    """A point as it is stored."""

    identity: str
    vector: Vector
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WholeRead:
    """Some points; those that are damaged are left out.

    Attributes:
        offset: the point to go on at; None if these were the last.
    """

    points: list[WholePoint]
    offset: str | None


@dataclass(frozen=True, slots=True)
class StoreWhole:
    """Store points as they were read. Answer: None."""

    points: tuple[WholePoint, ...]


@dataclass(frozen=True, slots=True)
class Flush:
    """Bring everything to disk. Answer: None."""


@dataclass(frozen=True, slots=True)
class Count:
    """Count the points. Answer: an int.

    Attributes:
        exact: whether each of them is looked at. Else it takes no time, and a few may be counted twice.
    """

    exact: bool = True


@dataclass(frozen=True, slots=True)
class CopyLiving:
    """Copy some points that live into files of their own; when all are there, these become the index's.

    Answer: whether there are more, or CopyRefused.

    Attributes:
        begins: whether to begin with the first point. Else it goes on.
        most: most points.
    """

    begins: bool
    most: int


@dataclass(frozen=True, slots=True)
class CopyRefused:
    """There is no room for a copy; what was copied is thrown away. `missing` says in words what it lacks."""

    missing: str


_Reads = NearestPoints | GetVectors | GetUsers | FirstVectors | ReadPoints | ReadWhole | Count
EdgeCall = _Reads | CopyLiving | Upsert | StoreWhole | Remove | RemoveVersions | Flush
Scored = tuple[float, int, int]
