"""What the log keeps about its messages beside them, compared with the messages: counts, and rows of messages gone."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

_COUNTED = "SELECT user_id, count(*) AS messages, max(seq) AS latest FROM messages GROUP BY user_id"
_MISCOUNTED = f"""
SELECT count(*) FROM (
  SELECT u.user_id FROM users AS u LEFT JOIN ({_COUNTED}) AS c USING (user_id)
    WHERE u.messages <> ifnull(c.messages, 0) OR u.latest_seq < ifnull(c.latest, 0)
  UNION ALL SELECT user_id FROM ({_COUNTED}) WHERE user_id NOT IN (SELECT user_id FROM users)
)
"""  # noqa: S608 - no value of a caller is in it
_RECOUNT = f"""
INSERT INTO users SELECT user_id, latest, messages FROM ({_COUNTED}) WHERE TRUE
ON CONFLICT DO UPDATE SET messages = excluded.messages, latest_seq = max(latest_seq, excluded.latest_seq)
"""  # noqa: S608 - as above
_NONE_LEFT = "UPDATE users SET messages = 0 WHERE messages <> 0 AND user_id NOT IN (SELECT user_id FROM messages)"

_OWNERLESS_ENTRY = """
FROM metadata_entries AS e WHERE NOT EXISTS
  (SELECT 1 FROM messages AS m WHERE (m.user_id, m.ts, m.message_id) = (e.user_id, e.ts, e.message_id))
"""
_OWNERLESS_VECTOR = """
FROM embeddings AS e WHERE NOT EXISTS
  (SELECT 1 FROM messages AS m WHERE (m.user_id, m.message_id) = (e.user_id, e.message_id))
"""


class Books(NamedTuple):
    """What does not agree: users with a wrong count, and rows whose messages are gone."""

    miscounted_users: int
    ownerless_entries: int
    ownerless_vectors: int

    @property
    def agree(self) -> bool:
        """Return whether all is as it should be."""
        return not any(self)


def compare_books(connection: sqlite3.Connection) -> Books:
    """Compare; each of the three in one statement."""
    return Books(
        _number(connection, _MISCOUNTED),
        _number(connection, f"SELECT count(*) {_OWNERLESS_ENTRY}"),
        _number(connection, f"SELECT count(*) {_OWNERLESS_VECTOR}"),
    )


def mend(connection: sqlite3.Connection) -> None:
    """Make them agree with the messages, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in (_RECOUNT, _NONE_LEFT, f"DELETE {_OWNERLESS_ENTRY}", f"DELETE {_OWNERLESS_VECTOR}"):
        connection.execute(statement)
    connection.execute("COMMIT")


def _number(connection: sqlite3.Connection, statement: str) -> int:
    return int(connection.execute(statement).fetchone()[0])
