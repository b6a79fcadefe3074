"""What callers ask the log's writer to do, and what each job needs of a commit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from nomemory.server.faults import Fault
from nomemory.server.log.expiry import Lifetimes, Swept
from nomemory.server.log.position import bucket_of
from nomemory.server.log.postgres import statements
from nomemory.server.log.postgres.rows import Clause, Expiry, all_clauses, joined, of_user
from nomemory.server.log.postgres.transaction import PostgresTransaction
from nomemory.server.log.protocol import Deleted, Erased, OnConflict, Written
from nomemory.server.log.writing import Key
from nomemory.server.message import Filter, Message

Receipt = TypeVar("Receipt", Written, Deleted, Erased, Swept)


@dataclass(slots=True, kw_only=True)
class Job(Generic[Receipt]):
    """One call, and its caller who waits. It is made in the event loop of the writer."""

    done: asyncio.Future[Receipt] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    answer: Receipt | Fault | None = None

    @property
    def can_be_grouped(self) -> bool:
        """Whether it is planned in memory, so that it may share a commit with others."""
        return True

    def user_ids(self) -> Iterator[str]:
        """Return the users whose messages it may change, some of them more than once."""
        raise NotImplementedError

    def numbers(self) -> int:
        """Return how many sequences it needs at most, at least one. What its own statements draw comes on top."""
        return 1

    def wanted(self) -> Iterator[Key]:
        """Return the messages that have to be looked up."""
        return iter(())

    def requests(self) -> Iterator[tuple[str, Sequence[Message]]]:
        """Return the batches whose request may have come before."""
        return iter(())

    async def attempt(self, transaction: PostgresTransaction) -> None:
        """Do the work; a fault is an answer, too, and spoils nobody else's commit."""
        try:
            self.answer = await self.apply(transaction)
        except Fault as fault:
            self.answer = fault

    async def apply(self, transaction: PostgresTransaction) -> Receipt:
        """Do the work."""
        raise NotImplementedError

    def settle(self, failure: BaseException | None = None) -> None:
        """Set the result for the caller, if there still is one."""
        if self.done.done():
            return
        if failure is not None:
            self.done.set_exception(failure)
        elif isinstance(self.answer, Fault):
            self.done.set_exception(self.answer)
        elif self.answer is not None:
            self.done.set_result(self.answer)


@dataclass(slots=True, kw_only=True)
class WriteJob(Job[Written]):
    """Store a batch."""

    messages: Sequence[Message]
    on_conflict: OnConflict
    request_id: str

    def user_ids(self) -> Iterator[str]:
        """Return the users of the messages."""
        return (message.user_id for message in self.messages)

    def numbers(self) -> int:
        """Return one for each message, and one more where something may stand that has to go."""
        known = len(self.messages) if self.request_id else sum(bool(message.message_id) for message in self.messages)
        return len(self.messages) + known

    def wanted(self) -> Iterator[Key]:
        """Return the messages that have ids."""
        return ((message.user_id, message.message_id) for message in self.messages if message.message_id)

    def requests(self) -> Iterator[tuple[str, Sequence[Message]]]:
        """Return the batch, if it has a request's id."""
        return iter([(self.request_id, self.messages)] if self.request_id else [])

    async def apply(self, transaction: PostgresTransaction) -> Written:
        """Do the work."""
        return transaction.write(self.messages, self.on_conflict, self.request_id)


@dataclass(slots=True, kw_only=True)
class DeleteJob(Job[Deleted]):
    """Delete messages by their ids."""

    user_id: str
    message_ids: Sequence[str]

    def user_ids(self) -> Iterator[str]:
        """Return the user."""
        return iter([self.user_id])

    def numbers(self) -> int:
        """Return one for each message."""
        return len(self.message_ids)

    def wanted(self) -> Iterator[Key]:
        """Return the messages to delete."""
        return ((self.user_id, message_id) for message_id in self.message_ids)

    async def apply(self, transaction: PostgresTransaction) -> Deleted:
        """Do the work."""
        return transaction.delete(self.user_id, self.message_ids)


@dataclass(slots=True, kw_only=True)
class OwnCommit(Job[Receipt]):
    """Anything that takes statements of its own. Without a user it locks what it needs by itself."""

    work: Callable[[PostgresTransaction], Awaitable[Receipt]]
    user_id: str | None = None

    @property
    def can_be_grouped(self) -> bool:
        """Return False."""
        return False

    def user_ids(self) -> Iterator[str]:
        """Return the user, if it is about one."""
        return iter([] if self.user_id is None else [self.user_id])

    async def apply(self, transaction: PostgresTransaction) -> Receipt:
        """Do the work."""
        return await self.work(transaction)


AnyJob = Job[Written] | Job[Deleted] | Job[Erased] | Job[Swept]


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
            remaining = most - len(found)
            too_old = await _keys(transaction, _TOO_OLD, oldest_us, after, until, remaining)
            next_after = after if len(too_old) == remaining else until
            found |= too_old
    if not found:
        return Swept(0, next_after)
    await transaction.lock({user_id for user_id, _ in found}, len(found))
    return Swept(await transaction.look_up(found), next_after)


async def _keys(transaction: PostgresTransaction, statement: str, *values: str | int) -> set[Key]:
    return {(user_id, message_id) for user_id, message_id in await transaction.fetch(statement, *values)}
