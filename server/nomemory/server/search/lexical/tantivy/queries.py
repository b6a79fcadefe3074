"""Build Tantivy queries for parsed queries and filters, from typed values and fixed field names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import tantivy
from tantivy import Occur

from nomemory.server.message import Role
from nomemory.server.message_filter import Filter
from nomemory.server.metadata_hashes import entry_hashes
from nomemory.server.search.grammar.tree import AllOf, AnyOf, Leaf, Node, Query, SpeakerBoost, TokenField
from nomemory.server.search.lexical.tantivy.schema import METADATA, build_schema
from nomemory.server.search.lexical.window import RankingWindow, window_terms

_SCHEMA = build_schema()
_UNRANKED = "basic"
TERMS: Final = TokenField.TERMS.value


def user_query(user_id: str) -> tantivy.Query:
    """Return a query for all messages of a user, with score 0."""
    return _value_query("user", user_id)


def filter_queries(message_filter: Filter) -> Iterator[tantivy.Query]:
    """Yield the queries that a message must match to pass a filter, with score 0."""
    if message_filter.since_us is not None:
        yield range_query("ts", minimum=message_filter.since_us)
    if message_filter.until_us is not None:
        yield range_query("ts", maximum=message_filter.until_us - 1)
    if message_filter.role is not None:
        yield _role_query(message_filter.role)
    if message_filter.conversation_id:
        yield _value_query("conversation", message_filter.conversation_id)
    for entry_hash in entry_hashes(message_filter.metadata):
        yield _value_query(METADATA, entry_hash)
    if message_filter.exclude_conversation_ids:
        excluded = [_value_query("conversation", each) for each in message_filter.exclude_conversation_ids]
        # A boolean query needs a positive clause.
        yield _boolean_query(must=[unscored_query(tantivy.Query.all_query())], must_not=excluded)


def range_query(field: str, *, minimum: int | None = None, maximum: int | None = None) -> tantivy.Query:
    """Return a query for an inclusive range of an integer field, with score 0."""
    return _scored_query(tantivy.Query.range_query(_SCHEMA, field, tantivy.FieldType.Integer, minimum, maximum), 0.0)


def leaf_query(leaf: Leaf) -> tantivy.Query:
    """Return a query for the messages of all users that contain a leaf."""
    field = leaf.stream.value
    if len(leaf.tokens) == 1:
        return tantivy.Query.term_query(_SCHEMA, field, leaf.tokens[0], _UNRANKED)
    return tantivy.Query.phrase_query(_SCHEMA, field, list(leaf.tokens))


def term_query(term: str) -> tantivy.Query:
    """Return a query for the messages of all users that contain a term."""
    return tantivy.Query.term_query(_SCHEMA, TERMS, term, _UNRANKED)


def boost_query(boost: SpeakerBoost) -> tantivy.Query:
    """Return a query for the messages of all users to which a speaker boost applies."""
    if not boost.names:
        return _role_query(Role.USER)
    return union_query([tantivy.Query.term_query(_SCHEMA, "speaker", name, _UNRANKED) for name in boost.names])


def node_query(node: Node, user: tantivy.Query) -> tantivy.Query:
    """Return a query for the matches of a node.

    The caller must restrict the query to the user, and ignore its scores.

    Each alternative of an AnyOf is restricted to the user, because the engine iterates over all matches of the
    alternatives.
    """
    match node:
        case Leaf():
            return leaf_query(node)
        case AllOf(required, excluded):
            must = [node_query(child, user) for child in required] or [user]
            return _boolean_query(must=must, must_not=[node_query(child, user) for child in excluded])
        case AnyOf(parts):
            return union_query([intersection_query([user, node_query(part, user)]) for part in parts])


def matching_query(query: Query, user: tantivy.Query) -> tantivy.Query:
    """Return a query for the user's messages that match a parsed query, with score 0."""
    return unscored_query(intersection_query([user, node_query(query.root, user)]))


def ranking_query(query: Query, weights: Sequence[float], user: tantivy.Query) -> tantivy.Query:
    """Return a query for the user's messages that match a parsed query, scored by the weights of leaves and boosts."""
    leaf_weights, boost_weights = weights[: len(query.leaves)], weights[len(query.leaves) :]
    leaves = [
        _scored_query(intersection_query([user, leaf_query(leaf)]), weight)
        for leaf, weight in zip(query.leaves, leaf_weights, strict=True)
    ]
    boosts = [
        _scored_query(intersection_query([user, boost_query(boost)]), weight)
        for boost, weight in zip(query.boosts, boost_weights, strict=True)
        if weight
    ]
    if not query.is_leaf_union:
        return _boolean_query(must=[matching_query(query, user)], should=[*leaves, *boosts])
    return _boolean_query(must=[union_query(leaves)], should=boosts) if boosts else union_query(leaves)


def window_query(query: Query, weights: Sequence[float], window: RankingWindow, user: tantivy.Query) -> tantivy.Query:
    """Return a query for the user's messages in a ranking window, with score 0."""
    newest = intersection_query([user, range_query("ts", minimum=window.since_us)])
    leaves = [intersection_query([user, leaf_query(leaf)]) for leaf in window_terms(query, weights, window.terms)]
    return unscored_query(union_query([*leaves, newest]))


def bitmask_query(queries: Sequence[tantivy.Query]) -> tantivy.Query:
    """Return the union of some queries. Bit n of the score is set if query n matches."""
    return union_query([_scored_query(query, float(1 << bit)) for bit, query in enumerate(queries)])


def intersection_query(queries: Sequence[tantivy.Query]) -> tantivy.Query:
    """Return the intersection of some queries. The score is the sum of the scores of all queries."""
    return _boolean_query(must=queries)


def union_query(queries: Sequence[tantivy.Query]) -> tantivy.Query:
    """Return the union of some queries. The score is the sum of the scores of the matching queries."""
    return _boolean_query(should=queries)


def unscored_query(query: tantivy.Query) -> tantivy.Query:
    """Return a query with the same matches and score 0. Tantivy executes a query without scores faster."""
    return _scored_query(query, 0.0)


def _role_query(role: Role) -> tantivy.Query:
    return _value_query("role", int(role))


def _value_query(field: str, value: str | int) -> tantivy.Query:
    """Return a query for the messages whose field has a value, with score 0."""
    return _scored_query(tantivy.Query.term_query(_SCHEMA, field, value, _UNRANKED), 0.0)


def _boolean_query(
    *,
    must: Sequence[tantivy.Query] = (),
    should: Sequence[tantivy.Query] = (),
    must_not: Sequence[tantivy.Query] = (),
) -> tantivy.Query:
    clauses = ((Occur.Must, must), (Occur.Should, should), (Occur.MustNot, must_not))
    return tantivy.Query.boolean_query([(occur, query) for occur, queries in clauses for query in queries])


def _scored_query(query: tantivy.Query, score: float) -> tantivy.Query:
    return tantivy.Query.const_score_query(query, score)
