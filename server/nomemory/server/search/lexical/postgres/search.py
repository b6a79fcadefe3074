"""Build the SQL statement of a lexical search, with the order and the ties that `LexicalIndex.search` specifies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from nomemory.server.message_filter import Filter
from nomemory.server.search.grammar.tree import requires_leaf
from nomemory.server.search.lexical.idf import estimate_leaf_shares, estimate_match_share
from nomemory.server.search.lexical.message_class import CLASSES, get_class_weight
from nomemory.server.search.lexical.postgres.conditions import (
    BoundValues,
    ConditionBuilder,
    Statement,
    build_conjunction,
    build_disjunction,
)
from nomemory.server.search.lexical.protocol import LexicalSearch, RankPosition
from nomemory.server.search.lexical.window import RankingWindow, select_window_terms
from nomemory.server.store.conditions import ExpiryConditions
from nomemory.server.store.postgres.rows import POSTGRES
from nomemory.server.store.retention import RetentionPolicy

FEW: Final = 256
"""Maximum number of messages of a user for which a scan costs less than an index lookup."""

_UNKNOWN_USER: Final = 100_000
"""Assumed message count of a user whose count is not cached."""

_COLUMNS: Final = "ts_us, sequence, message_id, wire, checksum"
_CLASS_WEIGHTS: Final = ",".join(str(get_class_weight(number)) for number in CLASSES)
_CLASS_WEIGHT: Final = f"('{{{_CLASS_WEIGHTS}}}'::float8[])[get_byte(tokens, 0) + 1]"


class RowConditions:
    """Builds the SQL conditions on the rows that match a search.

    Args:
        message_count: the approximate number of messages of the user; None if it is unknown.
    """

    def __init__(self, search: LexicalSearch, retention: RetentionPolicy, message_count: int | None) -> None:
        self.values = BoundValues()
        self.conditions = ConditionBuilder(search.user_id, self.values)
        self._user_id = search.user_id
        self._query = search.query
        self._ranking = search.ranking
        self._filter = search.filter
        self._limit = search.limit
        self._expiry = ExpiryConditions(POSTGRES, retention)
        self._message_count = _UNKNOWN_USER if message_count is None else message_count

    def build_newest_condition(self, until_us: int | None) -> str:
        """Return the SQL condition that selects the matches up to a time.

        The condition makes PostgreSQL scan rows in time order if a scan is expected to fill a page faster than an index
        lookup of all matches.
        """
        share = self._estimate_share()
        in_order = self._limit < share * share * self._message_count  # limit / share rows, or share * messages
        bounds = [] if until_us is None else [f"ts_us <= {self.values.bind(until_us, 'bigint')}"]
        return build_conjunction(
            [
                self._build_source_clause(until_us, in_order=in_order),
                self._build_match_condition(),
                *bounds,
                *self._build_filter_conditions(),
            ]
        )

    def build_window_condition(self) -> str:
        """Return the SQL condition that selects the matches in the ranking window.

        If the query is a union of terms and phrases, the condition also selects messages in the window that contain
        none of them.
        """
        source = (
            self._build_window_clause(self._ranking.window) if self._ranking.window else self._build_source_clause()
        )
        matches = [] if self._query.is_leaf_union else [self._build_match_condition()]
        return build_conjunction([source, *matches, *self._build_filter_conditions()])

    def build_retracting_id(self) -> str:
        """Return the SQL expression for the id of the message that retracts the row's message."""
        return self.values.bind_clause(
            self._expiry.build_retraction_expression(self._user_id, self._expiry.build_unexpired_clause())
        )

    def _build_source_clause(self, until_us: int | None = None, *, in_order: bool = False) -> str:
        root = self._query.root
        if in_order or self._message_count <= FEW or not requires_leaf(root):
            return self.conditions.build_time_range_condition(self._filter, until_us)
        return build_conjunction(
            [self.conditions.build_candidate_condition(root), self.conditions.build_user_condition()]
        )

    def _build_window_clause(self, window: RankingWindow) -> str:
        conditions = self.conditions
        newest = conditions.build_time_range_condition(Filter(since_us=window.since_us))
        leaves = select_window_terms(self._query, self._ranking.weights, window.term_count)
        if not leaves:
            return newest
        terms = build_conjunction(
            [
                conditions.build_any_candidate_condition(leaves),
                build_disjunction(map(conditions.build_match_condition, leaves)),
            ]
        )
        return build_conjunction([build_disjunction([newest, terms]), conditions.build_user_condition()])

    def _build_match_condition(self) -> str:
        return self.conditions.build_match_condition(self._query.root)

    def _build_filter_conditions(self) -> Iterator[str]:
        yield from self.conditions.build_filter_conditions(self._filter)
        yield f"sequence <= {self.values.bind(self._ranking.applied_sequence, 'bigint')}"
        yield self.values.bind_clause(self._expiry.build_unexpired_clause())

    def _estimate_share(self) -> float:
        """Estimate the share of the user's messages that match."""
        return estimate_match_share(self._query.root, estimate_leaf_shares(self._query, self._ranking.weights))


def build_search_statement(
    search: LexicalSearch, retention: RetentionPolicy, message_count: int | None
) -> Statement | None:
    """Return the SQL statement of a search, or None if the search has no hits.

    The rows are the unsorted hits, with the columns score, `ts_us`, sequence number, id, encoded message, checksum,
    and the id of the retracting message.

    `message_count` is the approximate number of messages of the user; None if it is unknown.
    """
    query, best = search.query, sum(search.ranking.weights, start=0.0)
    if query.has_uniform_score and search.start and search.start.score < best:
        return None
    rows = RowConditions(search, retention, message_count)
    page = _build_newest_subquery(rows, search, best) if query.has_uniform_score else _build_best_subquery(rows, search)
    return Statement(f"SELECT messages.*, {rows.build_retracting_id()} FROM ({page}) AS messages", rows.values.all)


def build_newest_half_statement(user_id: str, message_filter: Filter, window: int) -> Statement:
    """Return the SQL statement that selects the start time of the newest `window / 2` messages that pass a filter.

    The statement returns one row if more than `window` messages pass the filter, and no row if not.
    """
    values = BoundValues()
    conditions = ConditionBuilder(user_id, values)
    admitted = build_conjunction(
        [conditions.build_time_range_condition(message_filter), *conditions.build_filter_conditions(message_filter)]
    )
    return Statement(
        f"SELECT (array_agg(ts_us ORDER BY ts_us DESC))[{values.bind(window // 2, 'integer')}] FROM ("
        f"SELECT ts_us FROM messages WHERE {admitted} ORDER BY ts_us DESC LIMIT {values.bind(window + 1, 'bigint')}"
        f") AS messages HAVING count(*) > {values.bind(window, 'bigint')}",
        values.all,
    )


def _build_newest_subquery(rows: RowConditions, search: LexicalSearch, score: float) -> str:
    """Return the SQL subquery that selects the newest matches, which all have the same score."""
    until_us = search.start.ts_us if search.start and search.start.score == score else None
    return (
        f"SELECT {rows.values.bind(score, 'float8')} AS score, {_COLUMNS} FROM messages"
        f" WHERE {rows.build_newest_condition(until_us)}"
        f" ORDER BY ts_us DESC FETCH FIRST ({rows.values.bind(search.limit, 'bigint')}) ROWS WITH TIES"
    )


def _build_best_subquery(rows: RowConditions, search: LexicalSearch) -> str:
    """Return the SQL subquery that selects the best matches in the ranking window."""
    query, weights, conditions = search.query, search.ranking.weights, rows.conditions
    leaves = _build_weight_sum_expression(
        rows.values, zip(map(conditions.build_match_condition, query.leaves), weights, strict=False)
    )
    boosts = zip(query.boosts, weights[len(query.leaves) :], strict=True)
    boosted = _build_weight_sum_expression(
        rows.values, ((conditions.build_boost_condition(boost), weight) for boost, weight in boosts if weight)
    )
    class_weight = _CLASS_WEIGHT if query.uses_class_weight else "1::float8"
    scored = (
        f"SELECT {_COLUMNS}, {leaves} AS matched, {boosted} AS boosted, {class_weight} AS class_weight"
        f" FROM messages WHERE {rows.build_window_condition()} OFFSET 0"
    )
    score = "(matched + boosted) * class_weight"
    page = [
        *(["matched > 0"] if query.is_leaf_union else []),
        *_build_page_conditions(rows.values, score, search.start),
    ]
    return (
        f"SELECT {score} AS score, {_COLUMNS} FROM ({scored}) AS scored WHERE {build_conjunction(page)}"
        f" ORDER BY score DESC, ts_us DESC FETCH FIRST ({rows.values.bind(search.limit, 'bigint')}) ROWS WITH TIES"
    )


def _build_weight_sum_expression(values: BoundValues, parts: Iterable[tuple[str, float]]) -> str:
    """Return the SQL expression that adds up the weights of the conditions that are true."""
    cases = (f"CASE WHEN {condition} THEN {values.bind(weight, 'float8')} ELSE 0 END" for condition, weight in parts)
    return " + ".join(["0::float8", *cases])


def _build_page_conditions(values: BoundValues, score: str, start: RankPosition | None) -> Iterator[str]:
    """Yield the SQL condition for rows at or after a position in the ranking; nothing for the first page."""
    if start:
        position = f"({values.bind(start.score, 'float8')}, {values.bind(start.ts_us, 'bigint')})"
        yield f"({score}, ts_us) <= {position}"
