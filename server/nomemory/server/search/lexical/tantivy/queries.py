"""Build Tantivy queries for parsed queries and filters, from typed values and fixed field names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import tantivy
from tantivy import Occur

from nomemory.server.message import Role
from nomemory.server.message_filter import Filter
from nomemory.server.metadata_hashes import compute_entry_hashes
from nomemory.server.search.grammar.tree import AllOf, AnyOf, Leaf, Node, Query, SpeakerBoost, TokenField
from nomemory.server.search.lexical.tantivy.schema import METADATA, build_schema
from nomemory.server.search.lexical.window import RankingWindow, select_window_terms

_SCHEMA = build_schema()
_UNRANKED = "basic"
TERMS: Final = TokenField.TERMS.value


def build_user_query(user_id: str) -> tantivy.Query:
    """Return a query for all messages of a user, with score 0."""
    return _build_value_query("user", user_id)


def build_filter_queries(message_filter: Filter) -> Iterator[tantivy.Query]:
    """Yield the queries that a message must match to pass a filter, with score 0."""
    if message_filter.since_us is not None:
        yield build_range_query("ts", minimum=message_filter.since_us)
    if message_filter.until_us is not None:
        yield build_range_query("ts", maximum=message_filter.until_us - 1)
    if message_filter.role is not None:
        yield _build_role_query(message_filter.role)
    if message_filter.conversation_id:
        yield _build_value_query("conversation", message_filter.conversation_id)
    for entry_hash in compute_entry_hashes(message_filter.metadata):
        yield _build_value_query(METADATA, entry_hash)
    if message_filter.exclude_conversation_ids:
        excluded = [_build_value_query("conversation", each) for each in message_filter.exclude_conversation_ids]
        # A boolean query needs a positive clause.
        yield _build_boolean_query(must=[build_unscored_query(tantivy.Query.all_query())], must_not=excluded)


def build_range_query(field: str, *, minimum: int | None = None, maximum: int | None = None) -> tantivy.Query:
    """Return a query for an inclusive range of an integer field, with score 0."""
    return _build_scored_query(
        tantivy.Query.range_query(_SCHEMA, field, tantivy.FieldType.Integer, minimum, maximum), 0.0
    )


def build_leaf_query(leaf: Leaf) -> tantivy.Query:
    """Return a query for the messages of all users that contain a term or phrase."""
    field = leaf.stream.value
    if len(leaf.tokens) == 1:
        return tantivy.Query.term_query(_SCHEMA, field, leaf.tokens[0], _UNRANKED)
    return tantivy.Query.phrase_query(_SCHEMA, field, list(leaf.tokens))


def build_term_query(term: str) -> tantivy.Query:
    """Return a query for the messages of all users that contain a term."""
    return tantivy.Query.term_query(_SCHEMA, TERMS, term, _UNRANKED)


def build_boost_query(boost: SpeakerBoost) -> tantivy.Query:
    """Return a query for the messages of all users to which a speaker boost applies."""
    if not boost.names:
        return _build_role_query(Role.USER)
    return build_union_query([tantivy.Query.term_query(_SCHEMA, "speaker", name, _UNRANKED) for name in boost.names])


def build_node_query(node: Node, user: tantivy.Query) -> tantivy.Query:
    """Return a query for the matches of a node.

    The caller must restrict the query to the user, and ignore its scores.

    Each alternative of an AnyOf is restricted to the user, because the engine iterates over all matches of the
    alternatives.
    """
    match node:
        case Leaf():
            return build_leaf_query(node)
        case AllOf(required, excluded):
            must = [build_node_query(child, user) for child in required] or [user]
            return _build_boolean_query(must=must, must_not=[build_node_query(child, user) for child in excluded])
        case AnyOf(parts):
            return build_union_query([build_intersection_query([user, build_node_query(part, user)]) for part in parts])


def build_matching_query(query: Query, user: tantivy.Query) -> tantivy.Query:
    """Return a query for the user's messages that match a parsed query, with score 0."""
    return build_unscored_query(build_intersection_query([user, build_node_query(query.root, user)]))


def build_ranking_query(query: Query, weights: Sequence[float], user: tantivy.Query) -> tantivy.Query:
    """Return a query for the user's messages that match a parsed query, scored by the weights of terms and boosts."""
    leaf_weights, boost_weights = weights[: len(query.leaves)], weights[len(query.leaves) :]
    leaves = [
        _build_scored_query(build_intersection_query([user, build_leaf_query(leaf)]), weight)
        for leaf, weight in zip(query.leaves, leaf_weights, strict=True)
    ]
    boosts = [
        _build_scored_query(build_intersection_query([user, build_boost_query(boost)]), weight)
        for boost, weight in zip(query.boosts, boost_weights, strict=True)
        if weight
    ]
    if not query.is_leaf_union:
        return _build_boolean_query(must=[build_matching_query(query, user)], should=[*leaves, *boosts])
    return (
        _build_boolean_query(must=[build_union_query(leaves)], should=boosts) if boosts else build_union_query(leaves)
    )


def build_window_query(
    query: Query, weights: Sequence[float], window: RankingWindow, user: tantivy.Query
) -> tantivy.Query:
    """Return a query for the user's messages in a ranking window, with score 0."""
    newest = build_intersection_query([user, build_range_query("ts", minimum=window.since_us)])
    leaves = [
        build_intersection_query([user, build_leaf_query(leaf)])
        for leaf in select_window_terms(query, weights, window.term_count)
    ]
    return build_unscored_query(build_union_query([*leaves, newest]))


def build_bitmask_query(queries: Sequence[tantivy.Query]) -> tantivy.Query:
    """Return the union of some queries. Bit n of the score is set if query n matches."""
    return build_union_query([_build_scored_query(query, float(1 << bit)) for bit, query in enumerate(queries)])


def build_intersection_query(queries: Sequence[tantivy.Query]) -> tantivy.Query:
    """Return the intersection of some queries. The score is the sum of the scores of all queries."""
    return _build_boolean_query(must=queries)


def build_union_query(queries: Sequence[tantivy.Query]) -> tantivy.Query:
    """Return the union of some queries. The score is the sum of the scores of the matching queries."""
    return _build_boolean_query(should=queries)


def build_unscored_query(query: tantivy.Query) -> tantivy.Query:
    """Return a query with the same matches and score 0. Tantivy executes a query without scores faster."""
    return _build_scored_query(query, 0.0)


def _build_role_query(role: Role) -> tantivy.Query:
    return _build_value_query("role", int(role))


def _build_value_query(field: str, value: str | int) -> tantivy.Query:
    """Return a query for the messages whose field has a value, with score 0."""
    return _build_scored_query(tantivy.Query.term_query(_SCHEMA, field, value, _UNRANKED), 0.0)


def _build_boolean_query(
    *,
    must: Sequence[tantivy.Query] = (),
    should: Sequence[tantivy.Query] = (),
    must_not: Sequence[tantivy.Query] = (),
) -> tantivy.Query:
    clauses = ((Occur.Must, must), (Occur.Should, should), (Occur.MustNot, must_not))
    return tantivy.Query.boolean_query([(occur, query) for occur, queries in clauses for query in queries])


def _build_scored_query(query: tantivy.Query, score: float) -> tantivy.Query:
    return tantivy.Query.const_score_query(query, score)
