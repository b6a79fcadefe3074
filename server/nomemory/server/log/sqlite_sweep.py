"""Finds what has expired, a bounded piece at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Final, NamedTuple

from nomemory.server.log.batch import Key, Version
from nomemory.server.log.lifetimes import Lifetimes

_USERS_MAX: Final = 1_000
"""Users that one piece looks at for messages that are too old: a few milliseconds."""

_EXPIRED = """
SELECT user_id, message_id, ts, seq, wire FROM messages INDEXED BY messages_by_expiry
WHERE expire_us <= ? ORDER BY expire_us LIMIT ?
"""
_NEXT_USERS = "SELECT max(user_id) FROM (SELECT user_id FROM users WHERE user_id > ? ORDER BY user_id LIMIT ?)"
_TOO_OLD = """
SELECT m.user_id, m.message_id, m.ts, m.seq, m.wire FROM users AS u CROSS JOIN messages AS m
  ON m.user_id = u.user_id AND m.ts <= ?
WHERE u.user_id > ? AND u.user_id <= ? LIMIT ?
"""


class Piece(NamedTuple):
    """What one step of a sweep found, and the user after whom the next goes on; None at the end."""

    versions: Mapping[Key, Version]
    after: str | None


def find_expired(connection: sqlite3.Connection, lifetimes: Lifetimes, after: str, most: int) -> Piece:
    """Return up to `most` versions that have expired, wherever; then those too old, of users after `after`."""
    found = _versions(connection, _EXPIRED, (lifetimes.now_us(), most))
    if len(found) == most:
        return Piece(found, after)
    oldest_us = lifetimes.oldest_us()
    (until,) = connection.execute(_NEXT_USERS, (after, _USERS_MAX)).fetchone()
    if oldest_us is None or until is None:
        return Piece(found, None)
    room = most - len(found)
    too_old = _versions(connection, _TOO_OLD, (oldest_us, after, until, room))
    return Piece(found | too_old, after if len(too_old) == room else until)


def _versions(connection: sqlite3.Connection, statement: str, values: tuple[int | str, ...]) -> dict[Key, Version]:
    rows = connection.execute(statement, values)
    return {(user, message): Version(ts_us, sequence, wire, None) for user, message, ts_us, sequence, wire in rows}
