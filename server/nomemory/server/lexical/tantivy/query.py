"""A query of ours as a query of the engine, made of typed values over fixed fields."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import compress, product
from operator import not_
from typing import Final

import tantivy
from tantivy import Occur

from nomemory.server.lexical.form import FORMS, worth
from nomemory.server.lexical.query.tree import AllOf, AnyOf, Leaf, Node, Query, Sign, Stream
from nomemory.server.lexical.tantivy.schema import METADATA, build_schema
from nomemory.server.message import Filter, Role, marks_of

_SCHEMA = build_schema()
_UNRANKED = "basic"
TERMS: Final = Stream.TERMS.value
_PARTS_MAX = 8
"""Most leaves and signs of which all choices are looked at: 256, for each form."""

_LIFT: Final = 2.0
"""The engine multiplies by 1 or more only: it is given the worth of a form times this."""

_EXACT: Final = 512
"""What the engine makes of a score is a whole number of 1/512: weights are of 1/64, a lifted worth is of 1/8."""


_SCORES_KEPT: Final = 4096
"""Scores that are remembered: a page has few that differ."""


def of_user(user_id: str) -> tantivy.Query:
    """Match all messages of a user. Scores 0."""
    return _of_term("user", user_id)


def of_filter(narrowed: Filter) -> Iterator[tantivy.Query]:
    """Return what a message has to match to pass a filter. Each scores 0."""
    if narrowed.since_us is not None:
        yield of_range("ts", least=narrowed.since_us)
    if narrowed.until_us is not None:
        yield of_range("ts", most=narrowed.until_us - 1)
    if narrowed.role is not None:
        yield _of_role(narrowed.role)
    if narrowed.conversation_id:
        yield _of_term("conversation", narrowed.conversation_id)
    for mark in marks_of(narrowed.metadata):
        yield _of_term(METADATA, mark)


def of_range(field: str, *, least: int | None = None, most: int | None = None) -> tantivy.Query:
    """Match a range of an integer field, its ends included. Scores 0."""
    return _scoring(tantivy.Query.range_query(_SCHEMA, field, tantivy.FieldType.Integer, least, most), 0.0)


def of_leaf(leaf: Leaf) -> tantivy.Query:
    """Match the messages that have a leaf, of all users."""
    field = leaf.stream.value
    if len(leaf.tokens) == 1:
        return tantivy.Query.term_query(_SCHEMA, field, leaf.tokens[0], _UNRANKED)
    return tantivy.Query.phrase_query(_SCHEMA, field, list(leaf.tokens))


def of_term(term: str) -> tantivy.Query:
    """Match the messages that have a term of the analysis, of all users."""
    return tantivy.Query.term_query(_SCHEMA, TERMS, term, _UNRANKED)


def of_sign(sign: Sign) -> tantivy.Query:
    """Match the messages that have a sign, of all users."""
    if not sign.names:
        return _of_role(Role.USER)
    return _boolean(
        {Occur.Should: [tantivy.Query.term_query(_SCHEMA, "speaker", name, _UNRANKED) for name in sign.names]}
    )


def of_node(node: Node, mine: tantivy.Query) -> tantivy.Query:
    """Match as a node says, among `mine` at least where there is a choice; the score means nothing.

    A choice is made among `mine` part by part: the engine walks through all that any part matches.
    """
    match node:
        case Leaf():
            return of_leaf(node)
        case AllOf(wanted, unwanted):
            must = [of_node(child, mine) for child in wanted] or [mine]
            return _boolean({Occur.Must: must, Occur.MustNot: [of_node(child, mine) for child in unwanted]})
        case AnyOf(parts):
            return _boolean({Occur.Should: [all_of([mine, of_node(part, mine)]) for part in parts]})


def of_marks(queries: Sequence[tantivy.Query]) -> tantivy.Query:
    """Match where one of them does. The bits of the score say which: the first one's is 1."""
    return _boolean({Occur.Should: [_scoring(query, float(1 << place)) for place, query in enumerate(queries)]})


def of_ranking(
    query: Query, weights: Sequence[float], mine: tantivy.Query, essential: Collection[Leaf] = ()
) -> tantivy.Query:
    """Match as a query says, among `mine`; where leaves are `essential`, only where one of them is found.

    The score is the sum of the weights of what is found. Where forms rank, the engine is to weight it by the field
    WORTH; `score_of` reads what comes of that.
    """
    parts = _parts(query, weights)
    has_part = [leaf in essential for leaf in query.leaves] + [False] * (len(parts) - len(query.leaves))
    holders = [_scoring(all_of([mine, part]), weight) for part, weight in compress(parts, has_part)]
    (among,) = _any([all_of([mine, part]) for part, _ in compress(parts, has_part)]) or [mine]
    found = [_scoring(all_of([among, part]), weight) for part, weight in compress(parts, map(not_, has_part))]
    if not query.is_union:
        matching = _scoring(all_of([mine, of_node(query.root, mine)]), 0.0)
        return _boolean({Occur.Must: [matching, *_any(holders)], Occur.Should: found})
    if not holders:
        holders, found = found[: len(query.leaves)], found[len(query.leaves) :]
    return _boolean({Occur.Must: _any(holders), Occur.Should: found}) if found else _boolean({Occur.Should: holders})


def worth_of(form: int) -> float:
    """Return what the engine has to find in the field WORTH to multiply by a form's worth: it takes log2(2 + value)."""
    return float(2 ** (_LIFT * worth(form)) - 2)


@lru_cache(_SCORES_KEPT)
def score_of(weighted: float) -> float:
    """Return the score that the engine has weighted, exactly: without what 32 bits and its logarithm add."""
    return round(weighted * _EXACT) / (_EXACT * _LIFT)


def of_score(query: Query, weights: Sequence[float], score: float, mine: tantivy.Query) -> tantivy.Query | None:
    """Match where one of `mine` has just this score; None if the query has too many leaves to say so.

    A score tells the form, and which leaves and signs are found: those whose weights sum to it. Several choices may.
    """
    parts = _parts(query, weights)
    if len(parts) > _PARTS_MAX:
        return None
    queries, numbers = [part for part, _ in parts], [weight for _, weight in parts]
    sums = [(chosen, sum(compress(numbers, chosen), start=0.0)) for chosen in product((True, False), repeat=len(parts))]
    choices = [
        _boolean(
            {
                Occur.Must: [mine, *of_form, *compress(queries, chosen)],
                Occur.MustNot: list(compress(queries, map(not_, chosen))),
            }
        )
        for worths, of_form in _forms(query)
        for chosen, total in sums
        if total * worths == score and (any(chosen[: len(query.leaves)]) or not query.is_union)
    ]
    just_these = choices[0] if len(choices) == 1 else _boolean({Occur.Should: choices})
    return just_these if query.is_union else all_of([just_these, of_node(query.root, mine)])


def _parts(query: Query, weights: Sequence[float]) -> list[tuple[tantivy.Query, float]]:
    """Return what may be found, first the leaves, then the signs that weigh."""
    leaves, signs = weights[: len(query.leaves)], weights[len(query.leaves) :]
    found = [(of_leaf(leaf), weight) for leaf, weight in zip(query.leaves, leaves, strict=True)]
    return found + [(of_sign(sign), weight) for sign, weight in zip(query.signs, signs, strict=True) if weight]


def _forms(query: Query) -> list[tuple[float, list[tantivy.Query]]]:
    """Return by what a sum of weights may be multiplied, and which messages it is multiplied by that for."""
    return [(worth(form), [_of_term("form", form)]) for form in FORMS] if query.by_form else [(1.0, [])]


def _of_role(role: Role) -> tantivy.Query:
    return _of_term("role", int(role))


def _of_term(field: str, value: str | int) -> tantivy.Query:
    """Match where a field has just this value. Scores 0."""
    return _scoring(tantivy.Query.term_query(_SCHEMA, field, value, _UNRANKED), 0.0)


def all_of(queries: Sequence[tantivy.Query]) -> tantivy.Query:
    """Match where all of them do. The score is the sum of theirs."""
    return _boolean({Occur.Must: queries})


def unscored(query: tantivy.Query) -> tantivy.Query:
    """Match what a query does, and score 0: the engine walks through it faster if it adds up nothing."""
    return _scoring(query, 0.0)


def _any(queries: Sequence[tantivy.Query]) -> list[tantivy.Query]:
    """Match where one of them does, if there is any."""
    return [_boolean({Occur.Should: queries})] if queries else []


def _boolean(clauses: Mapping[Occur, Sequence[tantivy.Query]]) -> tantivy.Query:
    return tantivy.Query.boolean_query([(occur, query) for occur, queries in clauses.items() for query in queries])


def _scoring(query: tantivy.Query, score: float) -> tantivy.Query:
    return tantivy.Query.const_score_query(query, score)
