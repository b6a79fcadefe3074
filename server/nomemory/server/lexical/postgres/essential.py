"""The essential leaves of a query: what its best matches have to have, so that few messages have to be looked at."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from nomemory.server.lexical.query.tree import Leaf, Query
from nomemory.server.lexical.rarity import expected

_LOOKS: Final = (1_000, 16_000)
"""How many messages may be looked at, about, in one step after the other."""

_COMBINED: Final = 4
"""Most leaves of which all combinations are looked at."""


@dataclass(frozen=True, slots=True)
class EssentialSets:
    """Sets of leaves: a message that has all leaves of none of them scores `rest` at most."""

    sets: tuple[tuple[Leaf, ...], ...]
    rest: float


def essential_sets(query: Query, weights: Sequence[float], beside: float, messages: int) -> Iterator[EssentialSets]:
    """Return sets for ever more messages, as far as they are fewer than all that match.

    Args:
        query: what is asked for.
        weights: those of its leaves, first.
        beside: what signs may add to a score.
        messages: how many the user has, about.
    """
    weighed = sorted(zip(query.leaves, weights, strict=False), key=lambda one: -one[1])
    counts = expected(messages, query, weights)
    shares = {leaf: min(1.0, count / max(messages, 1)) for leaf, count in counts.items()}
    levels = list(_combinations(weighed, beside) if len(weighed) <= _COMBINED else _heaviest(weighed, beside))
    told = None
    for most in _LOOKS:
        fitting = [level for level in levels if messages * _share(level, shares) <= most]
        if fitting and fitting[-1] != told:
            told = fitting[-1]
            yield told


def _heaviest(weighed: Sequence[tuple[Leaf, float]], beside: float) -> Iterator[EssentialSets]:
    """Return the heaviest leaf, then the two heaviest, and so on; never all."""
    rest = sum(weight for _, weight in weighed) + beside
    for place, (_, weight) in enumerate(weighed[:-1], 1):
        rest -= weight
        yield EssentialSets(tuple((leaf,) for leaf, _ in weighed[:place]), rest)


def _combinations(weighed: Sequence[tuple[Leaf, float]], beside: float) -> Iterator[EssentialSets]:
    """Return, for each sum of weights, the smallest sets that sum to more; the greatest sum first, never all sets."""
    choices = [chosen for size in range(1, len(weighed) + 1) for chosen in combinations(weighed, size)]
    sums = sorted({_sum(chosen) for chosen in choices}, reverse=True)
    for rest in sums[1:]:
        smallest = list[frozenset[Leaf]]()
        for chosen in choices:
            leaves = frozenset(leaf for leaf, _ in chosen)
            if _sum(chosen) > rest and not any(smaller <= leaves for smaller in smallest):
                smallest.append(leaves)
        yield EssentialSets(tuple(tuple(leaf for leaf, _ in weighed if leaf in one) for one in smallest), rest + beside)


def _sum(chosen: Sequence[tuple[Leaf, float]]) -> float:
    return sum(weight for _, weight in chosen)


def _share(level: EssentialSets, shares: dict[Leaf, float]) -> float:
    """Return about which share of the messages has all leaves of a set, as if leaves were independent."""
    return sum(math.prod(shares[leaf] for leaf in leaves) for leaves in level.sets)
