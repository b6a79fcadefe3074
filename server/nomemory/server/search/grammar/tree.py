"""A parsed query: what must, may and must not be found."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

_TOKENS_PER_TERM = 8
"""Looking up a phrase costs by its length: a limit on terms has to bound that too."""


VERSION = 2
"""Version of the parser. Raise it when a text gets other leaves or weights: older cursors then no longer fit."""

_DOWNWEIGHT = 1 / 8
"""Weight factor of a leaf outside the sentences that ask."""


class Stream(Enum):
    """Which of the two streams of the analysis a leaf looks into; the values name the index's fields."""

    CHARS = "chars"
    TERMS = "terms"


@dataclass(frozen=True, slots=True)
class Leaf:
    """Tokens that stand one after the other. Several tokens are found in the stream CHARS only."""

    stream: Stream
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """Matches where everything wanted does and nothing unwanted. With nothing wanted: whatever is not unwanted."""

    wanted: tuple[Node, ...] = ()
    unwanted: tuple[Node, ...] = ()

    @property
    def only_negates(self) -> bool:
        """Whether it only excludes."""
        return not self.wanted and bool(self.unwanted)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Matches where at least one part does. There are at least two."""

    parts: tuple[Node, ...]


Node = Leaf | AllOf | AnyOf
EVERYTHING = AllOf()


@dataclass(frozen=True, slots=True)
class SpeakerBoost:
    """Raises the score of messages whose sender has one of these terms in their name; without names, of the user's.

    A boost never matches a message by itself.
    """

    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Query:
    """A parsed query. A match scores the sum of the weights of the leaves and boosts that it has.

    Attributes:
        root: the condition that a message has to match.
        downweighted: leaves that stand beside the question, and count less.
        boosts: speaker boosts; only the first one that applies to some message of the user counts.
        by_class: whether the score is multiplied by the weight of the message's class: it is where a text is words and
            phrases side by side.
    """

    root: Node = EVERYTHING
    downweighted: frozenset[Leaf] = frozenset()
    boosts: tuple[SpeakerBoost, ...] = ()
    by_class: bool = False

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The leaves that score, each once, in the order of the text."""
        return tuple(dict.fromkeys(_scoring(self.root)))

    def factor(self, leaf: Leaf) -> float:
        """Return the factor by which the IDF of a leaf is multiplied."""
        return _DOWNWEIGHT if leaf in self.downweighted else 1.0

    @property
    def is_empty(self) -> bool:
        """Whether it neither asks for nor excludes anything."""
        return self.root == EVERYTHING

    @cached_property
    def is_uniform(self) -> bool:
        """Whether all matches score the same, which is then the sum of all weights: time alone orders them."""
        return _uniform(self.root)

    @cached_property
    def is_union(self) -> bool:
        """Whether every message with a leaf matches, and no other."""
        return self.root == any_of(self.leaves)


def all_of(wanted: Iterable[Node], unwanted: Iterable[Node] = ()) -> Node:
    """Join nodes by AND and NOT, in the simplest form that matches and scores the same."""
    demanded, refused = list(wanted), list[Node]()
    for node in unwanted:
        if isinstance(node, AllOf) and node.only_negates:
            demanded.append(any_of(node.unwanted))
        else:
            refused.append(node)
    required: dict[Node, None] = {}
    for node in demanded:
        if isinstance(node, AllOf):
            required |= dict.fromkeys(node.wanted)
            refused += node.unwanted
        else:
            required[node] = None
    if len(required) == 1 and not refused:
        return next(iter(required))
    return AllOf(tuple(required), tuple(dict.fromkeys(refused)))


def any_of(parts: Iterable[Node]) -> Node:
    """Join nodes, at least one, by OR, in the simplest form that matches the same; what is there twice counts once."""
    flat: dict[Node, None] = {}
    for part in parts:
        flat |= dict.fromkeys(part.parts if isinstance(part, AnyOf) else (part,))
    return next(iter(flat)) if len(flat) == 1 else AnyOf(tuple(flat))


def requires_leaf(node: Node) -> bool:
    """Return whether every match has one of the node's leaves: a node that only negates may match any message."""
    match node:
        case Leaf():
            return True
        case AllOf(wanted):
            return any(map(requires_leaf, wanted))
        case AnyOf(parts):
            return all(map(requires_leaf, parts))


def count_terms(node: Node) -> int:
    """Count what there is to look up, wanted and unwanted: a leaf is one term for every eight tokens begun."""
    match node:
        case Leaf(tokens=tokens):
            return math.ceil(len(tokens) / _TOKENS_PER_TERM)
        case AllOf(wanted, unwanted):
            return sum(map(count_terms, (*wanted, *unwanted)))
        case AnyOf(parts):
            return sum(map(count_terms, parts))


def _scoring(node: Node) -> Iterator[Leaf]:
    match node:
        case Leaf():
            yield node
        case AllOf(wanted):
            for child in wanted:
                yield from _scoring(child)
        case AnyOf(parts):
            for child in parts:
                yield from _scoring(child)


def _uniform(node: Node) -> bool:
    match node:
        case Leaf():
            return True
        case AllOf(wanted):
            return all(map(_uniform, wanted))
        case AnyOf():
            return not any(True for _ in _scoring(node))
