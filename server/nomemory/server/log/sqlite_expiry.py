"""What has expired, as conditions of SQL on the columns of `messages`."""

from __future__ import annotations

from nomemory.server.log.lifetimes import Lifetimes

_NEVER = 2**63 - 1
"""Later than every moment of the contract."""

_EXPIRED = "SELECT user_id, ts, message_id FROM messages INDEXED BY messages_by_expiry WHERE expire_us <= ?"
_TOO_OLD = "SELECT user_id, ts, message_id FROM messages WHERE user_id = ? AND ts <= ?"
_ALL_TOO_OLD = """
SELECT m.user_id, m.ts, m.message_id FROM users AS u CROSS JOIN messages AS m ON m.user_id = u.user_id AND m.ts <= ?
"""

Condition = tuple[str, tuple[int | str, ...]]
"""A piece of SQL, and the values for its question marks."""


class Expiry:
    """Writes the conditions. They are no reason for SQLite to choose another index.

    Args:
        lifetimes: what decides.
    """

    def __init__(self, lifetimes: Lifetimes) -> None:
        self._lifetimes = lifetimes
        own = f"ifnull(expire_us, {_NEVER}) > ?"
        self._living = own if lifetimes.most_us is None else f"{own} AND +ts > ?"

    def living(self) -> Condition:
        """Return what holds for the messages that have not expired by now."""
        return self._living, self._moments()

    def expired(self) -> Condition:
        """Return what holds for all others."""
        return f"NOT ({self._living})", self._moments()

    def gone(self, user_id: str | None) -> Condition:
        """Return a statement for the keys of what has expired and is not removed yet, of one user or of all.

        It looks at nothing else: at few messages, if they are removed soon.
        """
        of_user: tuple[str, ...] = () if user_id is None else (user_id,)
        expired = f"{_EXPIRED} AND user_id = ?" if of_user else _EXPIRED
        oldest_us = self._lifetimes.oldest_us()
        if oldest_us is None:
            return expired, (self._lifetimes.now_us(), *of_user)
        too_old = _TOO_OLD if of_user else _ALL_TOO_OLD
        return f"{expired} UNION {too_old}", (self._lifetimes.now_us(), *of_user, *of_user, oldest_us)

    def _moments(self) -> tuple[int, ...]:
        oldest_us = self._lifetimes.oldest_us()
        return (self._lifetimes.now_us(),) if oldest_us is None else (self._lifetimes.now_us(), oldest_us)
