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

_ASIDE = 1 / 8
"""Weight of a leaf outside the sentences that ask."""


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
class Sign:
    """A message said by somebody with one of these terms in their name; without names, by the user.

    Signs rank what matches, and never match.
    """

    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Query:
    """A parsed query. A match scores by the weights of its leaves and signs that are found in it.

    Attributes:
        root: what has to be found.
        aside: leaves that stand beside what is asked, and count less.
        signs: what else ranks; of several only the first that some message of the user bears.
        by_form: whether the form of a message ranks too: it does where a text is words and phrases side by side.
    """

    root: Node = EVERYTHING
    aside: frozenset[Leaf] = frozenset()
    signs: tuple[Sign, ...] = ()
    by_form: bool = False

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The leaves that score, each once, in the order of the text."""
        return tuple(dict.fromkeys(_scoring(self.root)))

    def share(self, leaf: Leaf) -> float:
        """Return what a leaf counts of its rarity."""
        return _ASIDE if leaf in self.aside else 1.0

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
        """Whether every message with a leaf matches. One that only bears a sign does not."""
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
