"""Random queries with expected matches, evaluated by plain substring search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import strategies as st

CHARACTERS = "火锅辣吃"
WORDS = ("cat", "dog", "yak")


@dataclass(frozen=True)
class Claim:
    """A part of a query.

    `holds` evaluates a text. `leaves` are the scoring terms with their required substrings. A claim that only `negates`
    excludes matches of adjacent claims.
    """

    text: str
    holds: Callable[[str], bool]
    leaves: frozenset[tuple[str, str]] = frozenset()
    negates: bool = False


def _literal(text: str, sought: str, kind: str = "literal") -> Claim:
    return Claim(text, lambda content: sought in content, frozenset({(kind, sought)}))


def _ranked(run: str) -> Claim:
    pairs = list(map("".join, pairwise(run)))
    if not pairs:
        return _literal(run, run)
    return Claim(run, lambda content: any(p in content for p in pairs), frozenset(("pair", p) for p in pairs))


def _negated(claim: Claim, operator: str) -> Claim:
    return Claim(operator + claim.text, lambda content: not claim.holds(content), negates=True)


def _all(claims: Sequence[Claim]) -> Claim:
    return Claim(
        " AND ".join(claim.text for claim in claims),
        lambda content: all(claim.holds(content) for claim in claims),
        frozenset[tuple[str, str]]().union(*(claim.leaves for claim in claims)),
        negates=all(claim.negates for claim in claims),
    )


def _side_by_side(claims: Sequence[Claim]) -> Claim:
    positive = [claim for claim in claims if not claim.negates]
    refused = [claim for claim in claims if claim.negates]
    return Claim(
        " ".join(claim.text for claim in claims),
        lambda content: (
            (not positive or any(claim.holds(content) for claim in positive))
            and all(claim.holds(content) for claim in refused)
        ),
        frozenset[tuple[str, str]]().union(*(claim.leaves for claim in positive)),
        negates=not positive,
    )


def _any(claims: Sequence[Claim]) -> Claim:
    return Claim(
        " OR ".join(claim.text for claim in claims),
        lambda content: any(claim.holds(content) for claim in claims),
        frozenset[tuple[str, str]]().union(*(claim.leaves for claim in claims)),
        negates=len(claims) == 1 and claims[0].negates,
    )


def _in_parentheses(claim: Claim) -> Claim:
    return Claim(f"({claim.text})", claim.holds, claim.leaves, claim.negates)


RUNS = st.text(CHARACTERS, min_size=1, max_size=4)
_WORDS = st.sampled_from(WORDS).map(lambda word: _literal(word, word, "word"))
_PHRASES = RUNS.map(lambda run: _literal(f'"{run}"', run))
_EXACT = _WORDS | _PHRASES | RUNS.map(lambda run: _literal(run, run))
_RANKED = _WORDS | _PHRASES | RUNS.map(_ranked)
_GROUPS = st.lists(_EXACT, min_size=2, max_size=3).map(_any).map(_in_parentheses)
_NEGATIONS = st.builds(_negated, _EXACT | _GROUPS, st.sampled_from(["-", "NOT "]))
_CHAINS = st.lists(_EXACT | _GROUPS | _NEGATIONS, min_size=2, max_size=3).map(_all)
_SIDES = st.lists(_RANKED | _NEGATIONS | _CHAINS, min_size=1, max_size=3).map(_side_by_side)

claims = st.lists(_SIDES, min_size=1, max_size=3).map(_any)
"""Whole queries."""
