"""Writes the message log to PostgreSQL, over several connections at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from nomemory.server.log.bucket import bucket_of
from nomemory.server.log.lifetimes import Lifetimes
from nomemory.server.log.postgres_connections import Database
from nomemory.server.log.postgres_jobs import AnyJob, DeleteJob, Job, OwnCommit, WriteJob
from nomemory.server.log.postgres_lane import PostgresLane
from nomemory.server.log.postgres_removal import delete_matching, erase, remove_expired
from nomemory.server.log.postgres_words import ReadWords, no_words
from nomemory.server.log.protocol import Deleted, Erased, OnConflict, Swept, Written
from nomemory.server.log.write_queue import WriteQueue
from nomemory.server.message import Filter, Message

Receipt = TypeVar("Receipt", Written, Deleted, Erased, Swept)


class PostgresLogWriter:
    """A writer of a log; implements `LogWriter` and `ExpiredMessages`. Others may write to the same log elsewhere.

    Jobs of one user are done in their order. Those of other buckets of users need not wait for them.

    Belongs to one event loop. A call whose commit may or may not have been made is answered STORAGE_UNAVAILABLE: the
    same call with the same ids, or the same `request_id`, finds out.

    Args:
        database: where the log is.
        queue_max: how many jobs may wait; more are refused with OVERLOADED.
        queue_max_bytes: how many bytes of messages may wait; the same.
        announce: called after each commit that changed a message.
        lanes: how many connections it writes through.
        lifetimes: tells what has expired.
        read_words: reads what a row holds for search by words.
    """

    def __init__(
        self,
        database: Database,
        *,
        queue_max: int,
        queue_max_bytes: int,
        announce: Callable[[], None],
        lanes: int = 1,
        lifetimes: Lifetimes | None = None,
        read_words: ReadWords = no_words,
    ) -> None:
        self._lifetimes = lifetimes or Lifetimes()
        self._queue: WriteQueue[AnyJob] = WriteQueue(queue_max, queue_max_bytes, lanes)
        self._lanes = [
            PostgresLane(database, partial(self._queue.take, lane=lane), announce, self._lifetimes, read_words)
            for lane in range(lanes)
        ]

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return self._queue.waiting

    async def write(self, messages: Sequence[Message], *, on_conflict: OnConflict, request_id: str = "") -> Written:
        """Store a batch, all or nothing; returns when it is durable."""
        job = WriteJob(messages=messages, on_conflict=on_conflict, request_id=request_id)
        return await self._submit(job, sum(map(_size, messages)))

    async def delete(self, user_id: str, message_ids: Sequence[str]) -> Deleted:
        """Delete messages of one user; returns when it is durable."""
        return await self._submit(DeleteJob(user_id=user_id, message_ids=message_ids), sum(map(len, message_ids)))

    async def delete_matching(self, user_id: str, narrowed: Filter) -> Deleted:
        """Delete whatever a filter admits, all or nothing; returns when it is durable."""
        work = partial(delete_matching, user_id=user_id, narrowed=narrowed, lifetimes=self._lifetimes)
        return await self._submit(OwnCommit[Deleted](work=work, user_id=user_id), 0)

    async def erase(self, user_id: str) -> Erased:
        """Delete everything of one user; returns when it is durable."""
        work = partial(erase, user_id=user_id, lifetimes=self._lifetimes)
        return await self._submit(OwnCommit[Erased](work=work, user_id=user_id), 0)

    async def remove_expired(self, after: str, most: int) -> Swept:
        """Remove up to `most` messages that have expired."""
        work = partial(remove_expired, after=after, most=most, lifetimes=self._lifetimes)
        return await self._submit(OwnCommit[Swept](work=work), 0)

    async def close(self) -> None:
        """Finish what is queued, then close the connections."""
        for lane in self._lanes:
            await lane.close()

    async def _submit(self, job: Job[Receipt], size: int) -> Receipt:
        lane = self._lane_of(job)
        self._queue.put(job, size, lane)
        self._lanes[lane].wake()
        return await job.done

    def _lane_of(self, job: Job[Receipt]) -> int:
        """Return the lane of the first user's bucket: jobs that need the same lock share a commit."""
        user_id = next(job.user_ids(), None)
        return 0 if user_id is None else bucket_of(user_id) % len(self._lanes)


def _size(message: Message) -> int:
    """Return about how many bytes a message takes, from its content, metadata and vector."""
    metadata = sum(len(key) + len(value) for key, value in message.metadata.items())
    return len(message.content.encode()) + metadata + len(message.embedding or b"")
