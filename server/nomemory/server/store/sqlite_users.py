"""SQL conditions on users in SQLite, for the message log and the backlog of the vector index."""

from __future__ import annotations


def build_users_condition(user_id: str | None, prefix: str) -> tuple[str, tuple[str, ...]]:
    """Return a condition on one user, or on all users whose ids begin with an ASCII prefix, and the values to bind.

    SQLite compares strings by their bytes, so the ids with the prefix form a range.
    """
    if user_id is not None:
        return "user_id = ?", (user_id,)
    if prefix:
        return "user_id >= ? AND user_id < ?", (prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1))
    return "TRUE", ()
