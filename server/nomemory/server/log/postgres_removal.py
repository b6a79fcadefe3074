"""What a commit removes by a condition: what a filter admits, all of a user, what has expired."""

from __future__ import annotations

from typing import Final

from nomemory.server.log import postgres_statements as statements
from nomemory.server.log.batch import Key
from nomemory.server.log.bucket import bucket_of
from nomemory.server.log.lifetimes import Lifetimes
from nomemory.server.log.postgres_conditions import Clause, Expiry, all_clauses, joined, of_user
from nomemory.server.log.postgres_transaction import PostgresTransaction
from nomemory.server.log.protocol import Deleted, Erased, Swept
from nomemory.server.message import Filter

_USERS_MAX: Final = 1_000
"""Users that one piece of a sweep looks at for messages that are too old."""
_EXPIRED: Final = "SELECT user_id, message_id FROM messages WHERE expire_us <= ? ORDER BY expire_us LIMIT ?"
_NEXT_USERS: Final = (
    "SELECT max(user_id) FROM (SELECT user_id FROM users WHERE user_id > ? ORDER BY user_id LIMIT ?) AS next"
)
_TOO_OLD: Final = """
SELECT m.user_id, m.message_id FROM users AS u JOIN messages AS m USING (bucket, user_id)
WHERE m.ts_us <= ? AND u.user_id > ? AND u.user_id <= ? LIMIT ?
"""


async def delete_matching(
    transaction: PostgresTransaction, *, user_id: str, narrowed: Filter, lifetimes: Lifetimes
) -> Deleted:
    """Delete what a filter admits."""
    living = Expiry(lifetimes).living()
    deleted = await transaction.remove_where(user_id, joined([*all_clauses(user_id, narrowed), living]))
    return Deleted(deleted, (), transaction.latest_of(user_id))


async def erase(transaction: PostgresTransaction, *, user_id: str, lifetimes: Lifetimes) -> Erased:
    """Delete all of a user. What has expired goes, too, and is not counted."""
    user = (bucket_of(user_id), user_id)
    was_known = bool(await transaction.fetch(statements.KNOWN_USER, *user))
    living = Expiry(lifetimes).living()
    expired = Clause(f"NOT ({living.condition})", living.values)
    await transaction.remove_where(user_id, joined([of_user(user_id), expired]))
    deleted = await transaction.remove_where(user_id, of_user(user_id))
    await transaction.fetch(statements.FORGET_REQUESTS, *user)
    return Erased(deleted, transaction.latest_of(user_id), was_known)


async def remove_expired(transaction: PostgresTransaction, *, after: str, most: int, lifetimes: Lifetimes) -> Swept:
    """Remove up to `most` versions that have expired, wherever; then those too old, of users after `after`.

    They are found first. Then their buckets are locked, and what is found there still goes.
    """
    found = await _keys(transaction, _EXPIRED, lifetimes.now_us(), most)
    next_after: str | None = after
    if len(found) < most:
        oldest_us = lifetimes.oldest_us()
        ((until,),) = await transaction.fetch(_NEXT_USERS, after, _USERS_MAX)
        next_after = None
        if oldest_us is not None and until is not None:
            room = most - len(found)
            too_old = await _keys(transaction, _TOO_OLD, oldest_us, after, until, room)
            next_after = after if len(too_old) == room else until
            found |= too_old
    if not found:
        return Swept(0, next_after)
    await transaction.lock({user_id for user_id, _ in found}, len(found))
    return Swept(await transaction.look_up(found), next_after)


async def _keys(transaction: PostgresTransaction, statement: str, *values: str | int) -> set[Key]:
    return {(user_id, message_id) for user_id, message_id in await transaction.fetch(statement, *values)}
