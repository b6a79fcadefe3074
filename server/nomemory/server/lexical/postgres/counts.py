"""What stands in how many messages of a user, as statements of PostgreSQL.

Of whoever said much, the share of messages with a frequent term is taken from the latest ones: to count all of them
would take longer than the search. So a count depends on nothing but the user's own messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nomemory.server.lexical.postgres.condition import Conditions, Statement, Values, all_hold
from nomemory.server.lexical.postgres.words import Sought, sought_leaf, sought_names
from nomemory.server.lexical.query.tree import Leaf, Query, Sign, Stream
from nomemory.server.log.position import bucket_of
from nomemory.server.log.postgres.rows import users_clause
from nomemory.server.message import EVERYTHING, Filter, Role

SAMPLED_FROM: Final = 8192
"""Messages of a user from which on frequent terms are not counted in all of them."""

SAMPLE: Final = 1024
"""The latest messages, in which they are counted then."""

FREQUENT: Final = 32
"""In so many of those a term is frequent."""


_STANDS: Final = "position(sought.needle IN {messages}.tokens) > 0"
_HAS: Final = (
    'messages.keys @> sought.keys::bigint[] AND messages.user_id COLLATE "POSIX" = $1 AND '
    f"{_STANDS.format(messages='messages')}"
)
_WEIGH: Final = f"""
WITH owner AS MATERIALIZED (
  SELECT coalesce(max(latest_sequence), 0) AS sequence, coalesce(max(messages), 0) AS messages
  FROM users WHERE bucket = $2 AND user_id = $1
), lately AS MATERIALIZED (
  SELECT role, tokens FROM messages WHERE bucket = $2 AND user_id = $1 ORDER BY ts_us DESC, message_id DESC
  LIMIT (SELECT CASE WHEN messages > {SAMPLED_FROM} THEN {SAMPLE} ELSE 0 END FROM owner)
)
SELECT owner.sequence, owner.messages, ARRAY(
  SELECT CASE WHEN sample.found >= {FREQUENT} THEN sample.found * owner.messages / {SAMPLE}
    ELSE (SELECT count(*) FROM messages WHERE {_HAS}) END
  FROM unnest($3::text[], $4::bytea[]) WITH ORDINALITY AS sought (keys, needle, place),
    LATERAL (SELECT count(*) AS found FROM lately WHERE {_STANDS.format(messages="lately")}) AS sample
  ORDER BY sought.place
) AS counts, {{signs}} AS borne FROM owner
"""
_NAMED: Final = (
    "(EXISTS (SELECT FROM unnest(${keys}::text[], ${needles}::bytea[]) AS sought (keys, needle)"
    f" WHERE EXISTS (SELECT FROM lately WHERE {_STANDS.format(messages='lately')})"
    f" OR EXISTS (SELECT FROM messages WHERE {_HAS})))"
)
_OF_USER: Final = (
    f"(EXISTS (SELECT FROM lately WHERE role = {Role.USER.value})"
    f" OR EXISTS (SELECT FROM messages WHERE bucket = $2 AND user_id = $1 AND role = {Role.USER.value}))"
)
_OWN_TOTAL: Final = "SELECT coalesce(max(messages), 0) FROM users WHERE {users}"
_COUNT: Final = "SELECT count(*) FROM messages WHERE {admitted}"
_POSTINGS: Final = f"""
WITH lately AS MATERIALIZED (
  SELECT sequence, keys, tokens FROM messages WHERE {{admitted}} ORDER BY ts_us DESC, message_id DESC LIMIT {SAMPLE}
), asked AS MATERIALIZED (
  SELECT * FROM unnest({{keys}}, {{needles}}) WITH ORDINALITY AS sought (key, needle, place)
), found AS MATERIALIZED (
  SELECT sought.place, count(*) AS number, array_agg(lately.sequence) AS sequences
  FROM lately CROSS JOIN LATERAL unnest(lately.keys) AS stands (key) JOIN asked AS sought USING (key)
  WHERE {_STANDS.format(messages="lately")} GROUP BY sought.place
), whole AS MATERIALIZED (
  SELECT count(*) < {SAMPLE} AS is_little FROM lately
), total AS MATERIALIZED (
  SELECT CASE WHEN is_little THEN 0 ELSE ({{total}}) END AS messages FROM whole
), sought AS MATERIALIZED (
  SELECT asked.*, coalesce(found.number, 0) AS latest, found.sequences, whole.is_little,
    total.messages <= {SAMPLED_FROM} AS is_counted, coalesce(found.number, 0) * total.messages / {SAMPLE} AS likely
  FROM asked LEFT JOIN found USING (place) CROSS JOIN whole CROSS JOIN total
)
SELECT CASE WHEN is_little THEN latest WHEN every.is_exact THEN every.number ELSE greatest({{most}} + 1, likely) END,
  CASE WHEN is_little THEN sought.sequences WHEN every.is_exact THEN every.sequences END
FROM sought CROSS JOIN LATERAL (
  SELECT count(*) AS number, array_agg(sequence) AS sequences,
    sought.is_counted OR sought.likely <= {{most}} AND count(*) <= {{most}} AS is_exact
  FROM (
    SELECT sequence FROM messages
    WHERE NOT sought.is_little AND (sought.is_counted OR sought.likely <= {{most}})
      AND messages.keys @> ARRAY[sought.key] AND {_STANDS.format(messages="messages")} AND {{looked_up}}
    LIMIT CASE WHEN sought.is_counted THEN NULL ELSE {{most}} + 1 END
  ) AS messages
) AS every ORDER BY sought.place
"""


def weighing(user_id: str, query: Query) -> Statement:
    """Return what gives one row: the user's latest sequence, how many messages, in how many each leaf is, and signs.

    Of signs it gives whether any message bears them. Counts of much may be guessed from the latest messages.
    """
    sought = [sought_leaf(user_id, leaf) for leaf in query.leaves]
    values: list[object] = [user_id, bucket_of(user_id), *_columns(sought)]
    signs = ", ".join(_bearing(user_id, sign, values) for sign in query.signs)
    return Statement(_WEIGH.format(signs=f"ARRAY[{signs}]::boolean[]"), values)


def counting(user_id: str, narrowed: Filter) -> Statement:
    """Return what counts the messages that a filter admits."""
    values = Values()
    conditions = Conditions(user_id, values)
    return Statement(_COUNT.format(admitted=_admitted(conditions, narrowed)), values.all)


def posting(user_id: str, terms: Sequence[str], narrowed: Filter, most: int) -> Statement:
    """Return what gives a number and sequences for each term, in order; the sequences may be too many, or NULL."""
    values = Values()
    conditions = Conditions(user_id, values)
    admitted = _admitted(conditions, narrowed)
    sought = [sought_leaf(user_id, Leaf(Stream.TERMS, (term,))) for term in terms]
    if narrowed == EVERYTHING:
        total = _OWN_TOTAL.format(users=values.of(users_clause(user_id, "")))
    else:
        total = _COUNT.format(admitted=admitted)
    return Statement(
        _POSTINGS.format(
            admitted=admitted,
            looked_up=all_hold([conditions.own(), *conditions.admits(narrowed)]),
            total=total,
            keys=values.bind([one.keys[0] for one in sought], "bigint[]"),
            needles=values.bind([one.needle for one in sought], "bytea[]"),
            most=values.bind(most, "bigint"),
        ),
        values.all,
    )


def _admitted(conditions: Conditions, narrowed: Filter) -> str:
    return all_hold([conditions.said(narrowed), *conditions.admits(narrowed)])


def _bearing(user_id: str, sign: Sign, values: list[object]) -> str:
    if not sign.names:
        return _OF_USER
    place = len(values)
    values += _columns(sought_names(user_id, sign))
    return _NAMED.format(keys=place + 1, needles=place + 2)


def _columns(sought: Sequence[Sought]) -> tuple[list[str], list[bytes]]:
    """Return the keys of each, as text, because their numbers differ, and the needles."""
    return [f"{{{','.join(map(str, one.keys))}}}" for one in sought], [one.needle for one in sought]
