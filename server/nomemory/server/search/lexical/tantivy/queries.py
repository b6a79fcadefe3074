"""A parsed query as a query of Tantivy, built from typed values over fixed fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import tantivy
from tantivy import Occur

from nomemory.server.message import Role
from nomemory.server.message_filter import Filter
from nomemory.server.metadata_hashes import entry_hashes
from nomemory.server.search.grammar.tree import AllOf, AnyOf, Leaf, Node, Query, SpeakerBoost, Stream
from nomemory.server.search.lexical.tantivy.schema import METADATA, build_schema
from nomemory.server.search.lexical.window import RankingWindow, window_terms

_SCHEMA = build_schema()
_UNRANKED = "basic"
TERMS: Final = Stream.TERMS.value


def user_query(user_id: str) -> tantivy.Query:
    """Match all messages of a user. Scores 0."""
    return _value_query("user", user_id)


def filter_queries(message_filter: Filter) -> Iterator[tantivy.Query]:
    """Return the queries that a message has to match to pass a filter. Each scores 0."""
    if message_filter.since_us is not None:
        yield range_query("ts", minimum=message_filter.since_us)
    if message_filter.until_us is not None:
        yield range_query("ts", maximum=message_filter.until_us - 1)
    if message_filter.role is not None:
        yield _role_query(message_filter.role)
    if message_filter.conversation_id:
        yield _value_query("conversation", message_filter.conversation_id)
    for mark in entry_hashes(message_filter.metadata):
        yield _value_query(METADATA, mark)
    if message_filter.exclude_conversation_ids:
        excluded = [_value_query("conversation", each) for each in message_filter.exclude_conversation_ids]
        # A boolean query needs a clause that matches.
        yield _boolean(must=[unscored(tantivy.Query.all_query())], must_not=excluded)


def range_query(field: str, *, minimum: int | None = None, maximum: int | None = None) -> tantivy.Query:
    """Match a range of an integer field, its ends included. Scores 0."""
    return _scoring(tantivy.Query.range_query(_SCHEMA, field, tantivy.FieldType.Integer, minimum, maximum), 0.0)


def leaf_query(leaf: Leaf) -> tantivy.Query:
    """Match the messages that have a leaf, of all users."""
    field = leaf.stream.value
    if len(leaf.tokens) == 1:
        return tantivy.Query.term_query(_SCHEMA, field, leaf.tokens[0], _UNRANKED)
    return tantivy.Query.phrase_query(_SCHEMA, field, list(leaf.tokens))


def term_query(term: str) -> tantivy.Query:
    """Match the messages that have a term of the analysis, of all users."""
    return tantivy.Query.term_query(_SCHEMA, TERMS, term, _UNRANKED)


def boost_query(boost: SpeakerBoost) -> tantivy.Query:
    """Match the messages that get a speaker boost, of all users."""
    if not boost.names:
        return _role_query(Role.USER)
    return any_of([tantivy.Query.term_query(_SCHEMA, "speaker", name, _UNRANKED) for name in boost.names])


def node_query(node: Node, user: tantivy.Query) -> tantivy.Query:
    """Match a node, at least within a choice only messages of the user; the score means nothing.

    Each part of a choice is intersected with the user's messages, because the engine walks through all that any part
    matches.
    """
    match node:
        case Leaf():
            return leaf_query(node)
        case AllOf(wanted, unwanted):
            must = [node_query(child, user) for child in wanted] or [user]
            return _boolean(must=must, must_not=[node_query(child, user) for child in unwanted])
        case AnyOf(parts):
            return any_of([all_of([user, node_query(part, user)]) for part in parts])


def matching_query(query: Query, user: tantivy.Query) -> tantivy.Query:
    """Match the messages of the user that match a query. Scores 0."""
    return unscored(all_of([user, node_query(query.root, user)]))


def ranking_query(query: Query, weights: Sequence[float], user: tantivy.Query) -> tantivy.Query:
    """Match the messages of the user that match a query; the score is the sum of the weights of what they have."""
    leaf_weights, boost_weights = weights[: len(query.leaves)], weights[len(query.leaves) :]
    leaves = [
        _scoring(all_of([user, leaf_query(leaf)]), weight)
        for leaf, weight in zip(query.leaves, leaf_weights, strict=True)
    ]
    boosts = [
        _scoring(all_of([user, boost_query(boost)]), weight)
        for boost, weight in zip(query.boosts, boost_weights, strict=True)
        if weight
    ]
    if not query.is_union:
        return _boolean(must=[matching_query(query, user)], should=[*leaves, *boosts])
    return _boolean(must=[any_of(leaves)], should=boosts) if boosts else any_of(leaves)


def window_query(query: Query, weights: Sequence[float], window: RankingWindow, user: tantivy.Query) -> tantivy.Query:
    """Match the messages of the user that are in a window. Scores 0."""
    newest = all_of([user, range_query("ts", minimum=window.since_us)])
    leaves = [all_of([user, leaf_query(leaf)]) for leaf in window_terms(query, weights, window.terms)]
    return unscored(any_of([*leaves, newest]))


def marks_query(queries: Sequence[tantivy.Query]) -> tantivy.Query:
    """Match where one of the queries does. Bit n of the score is set where query n matches."""
    return any_of([_scoring(query, float(1 << bit)) for bit, query in enumerate(queries)])


def all_of(queries: Sequence[tantivy.Query]) -> tantivy.Query:
    """Match where all of the queries do. The score is the sum of theirs."""
    return _boolean(must=queries)


def any_of(queries: Sequence[tantivy.Query]) -> tantivy.Query:
    """Match where at least one of the queries does. The score is the sum of theirs."""
    return _boolean(should=queries)


def unscored(query: tantivy.Query) -> tantivy.Query:
    """Match where a query does, and score 0: the engine is faster if it adds up nothing."""
    return _scoring(query, 0.0)


def _role_query(role: Role) -> tantivy.Query:
    return _value_query("role", int(role))


def _value_query(field: str, value: str | int) -> tantivy.Query:
    """Match where a field has a value. Scores 0."""
    return _scoring(tantivy.Query.term_query(_SCHEMA, field, value, _UNRANKED), 0.0)


def _boolean(
    *,
    must: Sequence[tantivy.Query] = (),
    should: Sequence[tantivy.Query] = (),
    must_not: Sequence[tantivy.Query] = (),
) -> tantivy.Query:
    clauses = ((Occur.Must, must), (Occur.Should, should), (Occur.MustNot, must_not))
    return tantivy.Query.boolean_query([(occur, query) for occur, queries in clauses for query in queries])


def _scoring(query: tantivy.Query, score: float) -> tantivy.Query:
    return tantivy.Query.const_score_query(query, score)
