"""Requests to the worker of the embedded engine, and their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from nomemory.server.embedding.vector import Vector
from nomemory.server.search.semantic.filter_conditions import Condition

ScoredPoint = tuple[float, int, int]
"""The score of a point, its `ts` in microseconds and the sequence of its version."""


class ShardCall(NamedTuple):
    """A call of a method of `Shard`. The answer is what the method returns."""

    method: str
    arguments: Sequence[Any]
    keywords: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NearestQuery:
    """A search for the points nearest to a vector. The answer is up to `limit` scored points, best first."""

    vector: Vector
    conditions: tuple[Condition, ...]
    limit: int


class UserPoints(NamedTuple):
    """A page of a user's points.

    Attributes:
        sequences: the sequence of the version of each sound point.
        unsound: the number of points that cannot be used.
        next_offset: where the next page starts; None after the last page.
    """

    sequences: list[int]
    unsound: int
    next_offset: str | None
