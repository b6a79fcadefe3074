"""SQL statements for document frequencies and postings of terms in one user's messages.

For users with very many messages, the frequencies of frequent terms are extrapolated from the newest messages, because
an exact count would take longer than the search. A frequency depends on the user's own messages only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nomemory.server.message import Role
from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.search.grammar.tree import Leaf, Query, SpeakerBoost, TokenField
from nomemory.server.search.lexical.postgres.conditions import (
    BoundValues,
    ConditionBuilder,
    Statement,
    build_conjunction,
)
from nomemory.server.search.lexical.postgres.token_columns import (
    TermPredicate,
    build_boost_predicates,
    build_leaf_predicate,
)
from nomemory.server.store.buckets import compute_bucket
from nomemory.server.store.postgres.rows import build_users_clause

SAMPLING_THRESHOLD: Final = 8192
"""Number of messages of a user above which the frequencies of frequent terms are extrapolated."""

SAMPLE: Final = 1024
"""Number of the newest messages in the sample."""

FREQUENT: Final = 32
"""Minimum number of messages in the sample that contain a frequent term."""


_CONTAINS: Final = "position(predicate.needle IN {messages}.tokens) > 0"
_HAS: Final = (
    'messages.keys @> predicate.keys::bigint[] AND messages.user_id COLLATE "POSIX" = $1 AND '
    f"{_CONTAINS.format(messages='messages')}"
)
_FREQUENCIES: Final = f"""
WITH owner AS MATERIALIZED (
  SELECT coalesce(max(latest_sequence), 0) AS sequence, coalesce(max(messages), 0) AS messages
  FROM users WHERE bucket = $2 AND user_id = $1
), latest AS MATERIALIZED (
  SELECT role, tokens FROM messages WHERE bucket = $2 AND user_id = $1 ORDER BY ts_us DESC, message_id DESC
  LIMIT (SELECT CASE WHEN messages > {SAMPLING_THRESHOLD} THEN {SAMPLE} ELSE 0 END FROM owner)
)
SELECT owner.sequence, owner.messages, ARRAY(
  SELECT CASE WHEN sample.matches >= {FREQUENT} THEN sample.matches * owner.messages / {SAMPLE}
    ELSE (SELECT count(*) FROM messages WHERE {_HAS}) END
  FROM unnest($3::text[], $4::bytea[]) WITH ORDINALITY AS predicate (keys, needle, ordinal),
    LATERAL (SELECT count(*) AS matches FROM latest WHERE {_CONTAINS.format(messages="latest")}) AS sample
  ORDER BY predicate.ordinal
) AS counts, {{boosts}} AS boosted FROM owner
"""
_ANY_NAMED: Final = (
    "(EXISTS (SELECT FROM unnest(${keys}::text[], ${needles}::bytea[]) AS predicate (keys, needle)"
    f" WHERE EXISTS (SELECT FROM latest WHERE {_CONTAINS.format(messages='latest')})"
    f" OR EXISTS (SELECT FROM messages WHERE {_HAS})))"
)
_ANY_OF_USER: Final = (
    f"(EXISTS (SELECT FROM latest WHERE role = {Role.USER.value})"
    f" OR EXISTS (SELECT FROM messages WHERE bucket = $2 AND user_id = $1 AND role = {Role.USER.value}))"
)
_USER_TOTAL: Final = "SELECT coalesce(max(messages), 0) FROM users WHERE {users}"
_COUNT: Final = "SELECT count(*) FROM messages WHERE {admitted}"
_POSTINGS: Final = f"""
WITH latest AS MATERIALIZED (
  SELECT sequence, keys, tokens FROM messages WHERE {{admitted}} ORDER BY ts_us DESC, message_id DESC LIMIT {SAMPLE}
), lookups AS MATERIALIZED (
  SELECT * FROM unnest({{keys}}, {{needles}}) WITH ORDINALITY AS predicate (key, needle, ordinal)
), found AS MATERIALIZED (
  SELECT predicate.ordinal, count(*) AS number, array_agg(latest.sequence) AS sequences
  FROM latest CROSS JOIN LATERAL unnest(latest.keys) AS message (key) JOIN lookups AS predicate USING (key)
  WHERE {_CONTAINS.format(messages="latest")} GROUP BY predicate.ordinal
), whole AS MATERIALIZED (
  SELECT count(*) < {SAMPLE} AS is_small FROM latest
), total AS MATERIALIZED (
  SELECT CASE WHEN is_small THEN 0 ELSE ({{total}}) END AS messages FROM whole
), predicates AS MATERIALIZED (
  SELECT lookups.*, coalesce(found.number, 0) AS sampled, found.sequences, whole.is_small,
    total.messages <= {SAMPLING_THRESHOLD} AS is_counted, coalesce(found.number, 0) * total.messages / {SAMPLE} AS
    likely
  FROM lookups LEFT JOIN found USING (ordinal) CROSS JOIN whole CROSS JOIN total
)
SELECT CASE WHEN is_small THEN sampled WHEN every.is_exact THEN every.number
    ELSE greatest({{max_sequences}} + 1, likely) END,
  CASE WHEN is_small THEN predicate.sequences WHEN every.is_exact THEN every.sequences END
FROM predicates AS predicate CROSS JOIN LATERAL (
  SELECT count(*) AS number, array_agg(sequence) AS sequences,
    predicate.is_counted OR predicate.likely <= {{max_sequences}} AND count(*) <= {{max_sequences}} AS is_exact
  FROM (
    SELECT sequence FROM messages
    WHERE NOT predicate.is_small AND (predicate.is_counted OR predicate.likely <= {{max_sequences}})
      AND messages.keys @> ARRAY[predicate.key] AND {_CONTAINS.format(messages="messages")} AND {{looked_up}}
    LIMIT CASE WHEN predicate.is_counted THEN NULL ELSE {{max_sequences}} + 1 END
  ) AS messages
) AS every ORDER BY predicate.ordinal
"""


def build_frequencies_statement(user_id: str, query: Query) -> Statement:
    """Return the SQL statement that selects a user's latest sequence number, message count and document frequencies.

    The statement returns one row. The last two columns are arrays: the frequency of each term and phrase, and whether
    each speaker boost applies to any message.
    """
    predicates = [build_leaf_predicate(user_id, leaf) for leaf in query.leaves]
    values: list[object] = [user_id, compute_bucket(user_id), *_build_predicate_arrays(predicates)]
    boosts = ", ".join(_build_boost_condition(user_id, boost, values) for boost in query.boosts)
    return Statement(_FREQUENCIES.format(boosts=f"ARRAY[{boosts}]::boolean[]"), values)


def build_count_statement(user_id: str, message_filter: Filter) -> Statement:
    """Return the SQL statement that counts the messages that pass a filter."""
    values = BoundValues()
    conditions = ConditionBuilder(user_id, values)
    return Statement(_COUNT.format(admitted=_build_filter_clause(conditions, message_filter)), values.all)


def build_postings_statement(
    user_id: str, terms: Sequence[str], message_filter: Filter, max_sequences: int
) -> Statement:
    """Return the SQL statement that selects one row per term: document frequency and sequence numbers of its messages.

    The array of sequence numbers can be NULL, and can have more than `max_sequences` elements.
    """
    values = BoundValues()
    conditions = ConditionBuilder(user_id, values)
    admitted = _build_filter_clause(conditions, message_filter)
    predicates = [build_leaf_predicate(user_id, Leaf(TokenField.TERMS, (term,))) for term in terms]
    if message_filter == EVERYTHING:
        total = _USER_TOTAL.format(users=values.bind_clause(build_users_clause(user_id, "")))
    else:
        total = _COUNT.format(admitted=admitted)
    return Statement(
        _POSTINGS.format(
            admitted=admitted,
            looked_up=build_conjunction(
                [conditions.build_user_condition(), *conditions.build_filter_conditions(message_filter)]
            ),
            total=total,
            keys=values.bind([predicate.keys[0] for predicate in predicates], "bigint[]"),
            needles=values.bind([predicate.needle for predicate in predicates], "bytea[]"),
            max_sequences=values.bind(max_sequences, "bigint"),
        ),
        values.all,
    )


def _build_filter_clause(conditions: ConditionBuilder, message_filter: Filter) -> str:
    return build_conjunction(
        [conditions.build_time_range_condition(message_filter), *conditions.build_filter_conditions(message_filter)]
    )


def _build_boost_condition(user_id: str, boost: SpeakerBoost, values: list[object]) -> str:
    if not boost.names:
        return _ANY_OF_USER
    before = len(values)
    values += _build_predicate_arrays(build_boost_predicates(user_id, boost))
    return _ANY_NAMED.format(keys=before + 1, needles=before + 2)


def _build_predicate_arrays(predicates: Sequence[TermPredicate]) -> tuple[list[str], list[bytes]]:
    """Return the keys of each predicate as an array literal, and the needle of each predicate."""
    keys = [f"{{{','.join(map(str, predicate.keys))}}}" for predicate in predicates]
    return keys, [predicate.needle for predicate in predicates]
