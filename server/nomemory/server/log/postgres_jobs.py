"""What callers ask the log's writer to do, and what each job needs of a commit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from nomemory.server.faults import Fault
from nomemory.server.log.batch import Key
from nomemory.server.log.postgres_transaction import PostgresTransaction
from nomemory.server.log.protocol import Deleted, Erased, OnConflict, Swept, Written
from nomemory.server.message import Message

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
        """Return two for each message: what stands there may have to go."""
        return 2 * len(self.messages)

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
