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
"""Version of the parser. Increment it when a text gets different terms or weights, to invalidate older cursors."""

_DOWNWEIGHT = 1 / 8
"""Weight factor of a term that occurs only outside question sentences."""


class TokenField(Enum):
    """The index fields in which a term or phrase can be searched. Each value is the name of a field."""

    CHARS = "chars"
    TERMS = "terms"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A term or a phrase. A phrase of several tokens can be searched in the field CHARS only."""

    stream: TokenField
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """A node that matches if all required nodes match and no excluded node matches.

    The list of required nodes may be empty.
    """

    required: tuple[Node, ...] = ()
    excluded: tuple[Node, ...] = ()

    @property
    def is_pure_exclusion(self) -> bool:
        """Whether the node has excluded nodes but no required nodes."""
        return not self.required and bool(self.excluded)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """A node that matches if at least one of its parts matches. An AnyOf has at least two parts."""

    parts: tuple[Node, ...]


Node = Leaf | AllOf | AnyOf
EVERYTHING = AllOf()


@dataclass(frozen=True, slots=True)
class SpeakerBoost:
    """A score bonus for messages by authors whose name contains one of `names`, or by the user if `names` is empty.

    A boost does not affect which messages match.
    """

    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Query:
    """A parsed query.

    The score of a message is the sum of the weights of the terms, phrases and boosts that match it.

    Attributes:
        root: the condition on messages.
        downweighted: terms that occur only outside question sentences, and therefore have a lower weight.
        boosts: speaker boosts; only the first boost that applies to any message of the user counts.
        uses_class_weight: whether scores are multiplied by the weight of the message class, as for queries without
            operators.
    """

    root: Node = EVERYTHING
    downweighted: frozenset[Leaf] = frozenset()
    boosts: tuple[SpeakerBoost, ...] = ()
    uses_class_weight: bool = False

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The distinct terms and phrases that contribute to the score, in the order of the query text."""
        return tuple(dict.fromkeys(_collect_scoring_leaves(self.root)))

    def get_idf_factor(self, leaf: Leaf) -> float:
        """Return the factor by which the IDF of a term or phrase is multiplied."""
        return _DOWNWEIGHT if leaf in self.downweighted else 1.0

    @property
    def is_empty(self) -> bool:
        """Whether the query has no conditions."""
        return self.root == EVERYTHING

    @cached_property
    def has_uniform_score(self) -> bool:
        """Whether all matches have the same score, so that they are ordered by time."""
        return _is_uniform(self.root)

    @cached_property
    def is_leaf_union(self) -> bool:
        """Whether the query matches every message that contains at least one of its terms or phrases, and no other."""
        return self.root == build_any_of(self.leaves)


def build_all_of(required: Iterable[Node], excluded: Iterable[Node] = ()) -> Node:
    """Return the simplest node that matches if all `required` nodes match and none of the `excluded` nodes matches."""
    positive, negative = list(required), list[Node]()
    for node in excluded:
        if isinstance(node, AllOf) and node.is_pure_exclusion:
            positive.append(build_any_of(node.excluded))
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


def build_any_of(parts: Iterable[Node]) -> Node:
    """Return the simplest node that matches if at least one of the parts matches. At least one part is required."""
    flat: dict[Node, None] = {}
    for part in parts:
        flat |= dict.fromkeys(part.parts if isinstance(part, AnyOf) else (part,))
    return next(iter(flat)) if len(flat) == 1 else AnyOf(tuple(flat))


def requires_leaf(node: Node) -> bool:
    """Return whether every match contains at least one term or phrase of the node.

    The result is False for a node that only excludes messages.
    """
    match node:
        case Leaf():
            return True
        case AllOf(required):
            return any(map(requires_leaf, required))
        case AnyOf(parts):
            return all(map(requires_leaf, parts))


def count_terms(node: Node) -> int:
    """Count the terms of a node, including the excluded terms.

    A phrase counts as one term per eight tokens, rounded up.
    """
    match node:
        case Leaf(tokens=tokens):
            return math.ceil(len(tokens) / _TOKENS_PER_TERM)
        case AllOf(required, excluded):
            return sum(map(count_terms, (*required, *excluded)))
        case AnyOf(parts):
            return sum(map(count_terms, parts))


def _collect_scoring_leaves(node: Node) -> Iterator[Leaf]:
    match node:
        case Leaf():
            yield node
        case AllOf(required):
            for child in required:
                yield from _collect_scoring_leaves(child)
        case AnyOf(parts):
            for child in parts:
                yield from _collect_scoring_leaves(child)


def _is_uniform(node: Node) -> bool:
    match node:
        case Leaf():
            return True
        case AllOf(required):
            return all(map(_is_uniform, required))
        case AnyOf():
            return not any(True for _ in _collect_scoring_leaves(node))
