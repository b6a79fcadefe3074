"""Requests to the worker of the embedded engine, and their responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from nomemory.server.embedding.vector import Vector
from nomemory.server.search.semantic.filter_conditions import Condition

ScoredPoint = tuple[float, int, int]
"""The score of a point, its `ts` in microseconds and the sequence number of its version."""


class ShardCall(NamedTuple):
    """A request to call a method of `Shard`. The response is the return value of the method."""

    method: str
    arguments: Sequence[Any]
    keywords: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NearestQuery:
    """A request to find the points nearest to a vector.

    The response contains up to `limit` scored points, best first.
    """

    vector: Vector
    conditions: tuple[Condition, ...]
    limit: int


class UserPoints(NamedTuple):
    """A page of a user's points.

    Attributes:
        sequences: the sequence numbers of the valid points.
        invalid_count: the number of damaged points.
        next_offset: the offset of the next page; None on the last page.
    """

    sequences: list[int]
    invalid_count: int
    next_offset: str | None
