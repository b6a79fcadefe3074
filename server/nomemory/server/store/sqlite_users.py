"""Which users a count in SQLite is about: in the log, and in the backlog of the vector index."""

from __future__ import annotations


def users_condition(user_id: str | None, prefix: str) -> tuple[str, tuple[str, ...]]:
    """Return a condition on the column `user_id`, and its values: one user, or all whose ids begin with a prefix.

    The prefix is ASCII. SQLite compares texts by their bytes, so the ids that begin with it stand side by side.
    """
    if user_id is not None:
        return "user_id = ?", (user_id,)
    if prefix:
        return "user_id >= ? AND user_id < ?", (prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1))
    return "TRUE", ()
