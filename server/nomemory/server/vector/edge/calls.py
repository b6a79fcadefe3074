"""What goes to the embedded engine's worker, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from nomemory.server.embedding.vector import Vector
from nomemory.server.vector.points import Condition

Scored = tuple[float, int, int]
"""A point's score, its `ts` and the sequence of its version."""


class Call(NamedTuple):
    """A method of `Shard`, and its arguments. Answer: what it returns."""

    method: str
    arguments: tuple[object, ...]
    named: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class NearestPoints:
    """Find the points nearest to a vector. Answer: up to `limit` Scored, best first."""

    vector: Vector
    conditions: tuple[Condition, ...]
    limit: int


class StoredOfUser(NamedTuple):
    """Some of a user's points.

    Attributes:
        sequences: of the versions of the sound ones, one for each point.
        unsound: how many cannot be used.
        offset: the point to go on at; None if these were the last.
    """

    sequences: list[int]
    unsound: int
    offset: str | None


class WholePoint(NamedTuple):
    """A point as it is stored."""

    identity: str
    vector: Vector
    payload: Mapping[str, Any]


class WholeRead(NamedTuple):
    """Some points of all users, without those that are damaged; the point to go on at, None if these were the last."""

    points: list[WholePoint]
    offset: str | None
