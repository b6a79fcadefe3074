"""The syntax tree of a parsed query."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

_TOKENS_PER_TERM = 8
"""Tokens of a phrase that count as one term, because the cost of a phrase grows with its length."""


VERSION = 2
"""Version of the parser. Increment it when a text gets different leaves or weights, to invalidate older cursors."""

_DOWNWEIGHT = 1 / 8
"""Weight factor of a leaf that occurs only outside question sentences."""


class Stream(Enum):
    """The stream of the text analysis in which a leaf is searched. The values are the names of the index fields."""

    CHARS = "chars"
    TERMS = "terms"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A term or a phrase. A phrase of several tokens is searched in the stream CHARS only."""

    stream: Stream
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """Matches if all required nodes match and no excluded node matches. `required` may be empty."""

    required: tuple[Node, ...] = ()
    excluded: tuple[Node, ...] = ()

    @property
    def only_negates(self) -> bool:
        """Whether the node has excluded nodes only."""
        return not self.required and bool(self.excluded)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Matches if at least one of its parts matches. An AnyOf has at least two parts."""

    parts: tuple[Node, ...]


Node = Leaf | AllOf | AnyOf
EVERYTHING = AllOf()


@dataclass(frozen=True, slots=True)
class SpeakerBoost:
    """Raises the score of messages by authors whose name contains one of `names`; without `names`, by the user.

    A boost does not make a message match.
    """

    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Query:
    """A parsed query. The score of a match is the sum of the weights of its leaves and boosts.

    Attributes:
        root: the condition on messages.
        downweighted: leaves outside question sentences, which have a lower weight.
        boosts: speaker boosts; only the first boost that applies to any message of the user counts.
        by_class: whether the score is multiplied by the weight of the message class. It is True for queries without
            operators.
    """

    root: Node = EVERYTHING
    downweighted: frozenset[Leaf] = frozenset()
    boosts: tuple[SpeakerBoost, ...] = ()
    by_class: bool = False

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The distinct leaves that contribute to the score, in the order of the text."""
        return tuple(dict.fromkeys(_scoring_leaves(self.root)))

    def factor(self, leaf: Leaf) -> float:
        """Return the factor by which the IDF of a leaf is multiplied."""
        return _DOWNWEIGHT if leaf in self.downweighted else 1.0

    @property
    def is_empty(self) -> bool:
        """Whether the query has no conditions."""
        return self.root == EVERYTHING

    @cached_property
    def is_uniform(self) -> bool:
        """Whether all matches have the same score, the sum of all weights, so that only time orders them."""
        return _is_uniform(self.root)

    @cached_property
    def is_union(self) -> bool:
        """Whether the query matches exactly the messages with at least one leaf."""
        return self.root == any_of(self.leaves)


def all_of(required: Iterable[Node], excluded: Iterable[Node] = ()) -> Node:
    """Combine nodes by AND and NOT, in the simplest equivalent form with the same scores."""
    positive, negative = list(required), list[Node]()
    for node in excluded:
        if isinstance(node, AllOf) and node.only_negates:
            positive.append(any_of(node.excluded))
        else:
            negative.append(node)
    distinct: dict[Node, None] = {}
    for node in positive:
        if isinstance(node, AllOf):
            distinct |= dict.fromkeys(node.required)
            negative += node.excluded
        else:
            distinct[node] = None
    if len(distinct) == 1 and not negative:
        return next(iter(distinct))
    return AllOf(tuple(distinct), tuple(dict.fromkeys(negative)))


def any_of(parts: Iterable[Node]) -> Node:
    """Combine at least one node by OR, in the simplest equivalent form without duplicates."""
    flat: dict[Node, None] = {}
    for part in parts:
        flat |= dict.fromkeys(part.parts if isinstance(part, AnyOf) else (part,))
    return next(iter(flat)) if len(flat) == 1 else AnyOf(tuple(flat))


def requires_leaf(node: Node) -> bool:
    """Return whether every match contains a leaf of the node.

    The result is False for nodes that only exclude messages.
    """
    match node:
        case Leaf():
            return True
        case AllOf(required):
            return any(map(requires_leaf, required))
        case AnyOf(parts):
            return all(map(requires_leaf, parts))


def count_terms(node: Node) -> int:
    """Count the terms to look up, including excluded ones. A leaf counts as one term per eight tokens, rounded up."""
    match node:
        case Leaf(tokens=tokens):
            return math.ceil(len(tokens) / _TOKENS_PER_TERM)
        case AllOf(required, excluded):
            return sum(map(count_terms, (*required, *excluded)))
        case AnyOf(parts):
            return sum(map(count_terms, parts))


def _scoring_leaves(node: Node) -> Iterator[Leaf]:
    match node:
        case Leaf():
            yield node
        case AllOf(required):
            for child in required:
                yield from _scoring_leaves(child)
        case AnyOf(parts):
            for child in parts:
                yield from _scoring_leaves(child)


def _is_uniform(node: Node) -> bool:
    match node:
        case Leaf():
            return True
        case AllOf(required):
            return all(map(_is_uniform, required))
        case AnyOf():
            return not any(True for _ in _scoring_leaves(node))
