"""What callers ask a log's writer to do: jobs, which wait in a queue, and share commits where they can."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Generic, TypeVar

from nomemory.server.faults import Fault, Reason
from nomemory.server.message import Message
from nomemory.server.message_filter import Filter
from nomemory.server.runtime.metrics import catalog
from nomemory.server.runtime.metrics.meters import Meters
from nomemory.server.store.buckets import bucket_of
from nomemory.server.store.commit import CommitPlan, Key, RequestKey, digest_of
from nomemory.server.store.expiry_sweeper import ExpiryResult
from nomemory.server.store.protocol import LogWriter
from nomemory.server.store.results import Deleted, Erased, OnConflict, Written

_RETRY_AFTER_S = 0.2

Queued = TypeVar("Queued")


class WriteQueue(Generic[Queued]):
    """First in, first out, between the event loop that puts and the thread that takes.

    Args:
        jobs_max: how many jobs may wait.
        bytes_max: how large they may be together. A larger one can wait alone.
        partitions: how many queues it is. The limits are of all together.
    """

    def __init__(self, jobs_max: int, bytes_max: int, partitions: int = 1) -> None:
        self._jobs_max = jobs_max
        self._bytes_max = bytes_max
        self._partitions: list[deque[tuple[Queued, int]]] = [deque() for _ in range(partitions)]
        self._waiting = 0
        self._bytes = 0
        self._lock = threading.Lock()

    def put(self, job: Queued, size: int, partition: int = 0) -> None:
        """Append a job of `size` bytes to a partition.

        Raises:
            Fault: OVERLOADED, too much is waiting already.
        """
        with self._lock:
            if self._is_full_for(size):
                raise Fault(Reason.ERROR_REASON_OVERLOADED, "too many writes are waiting", retry_after_s=_RETRY_AFTER_S)
            self._partitions[partition].append((job, size))
            self._waiting += 1
            self._bytes += size

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return self._waiting

    def take(self, most: int, partition: int = 0) -> list[Queued]:
        """Take up to `most` jobs of a partition."""
        jobs = self._partitions[partition]
        with self._lock:
            taken = [jobs.popleft() for _ in range(min(len(jobs), most))]
            self._waiting -= len(taken)
            self._bytes -= sum(size for _, size in taken)
        return [job for job, _ in taken]

    def _is_full_for(self, size: int) -> bool:
        return self._waiting >= self._jobs_max or (self._waiting > 0 and self._bytes + size > self._bytes_max)


def _size_of(message: Message) -> int:
    metadata = sum(len(key) + len(value) for key, value in message.metadata.items())
    return len(message.content.encode()) + metadata + len(message.embedding or b"")


Receipt = TypeVar("Receipt", Written, Deleted, Erased, ExpiryResult)


@dataclass(slots=True, kw_only=True)
class Job(Generic[Receipt]):
    """What a caller asks a log's writer to do, and what to tell the caller, who waits."""

    done: Future[Receipt] = field(default_factory=Future)
    answer: Receipt | Fault | None = None

    def settle(self, failure: BaseException | None = None) -> None:
        """Set the result for the caller: a fault is an answer, too, and spoils nobody else's commit."""
        if self.done.done():
            return
        if failure is not None:
            self.done.set_exception(failure)
        elif isinstance(self.answer, Fault):
            self.done.set_exception(self.answer)
        elif self.answer is not None:
            self.done.set_result(self.answer)


@dataclass(slots=True, kw_only=True)
class PlannedJob(Job[Receipt]):
    """What is planned in memory, so that it may share a commit with others.

    Attributes:
        work: does it.
        keys: the messages that it is about. Those that come without an id have an empty one.
        request_id: of a batch that may have come before; empty: it has not.
    """

    work: Callable[[CommitPlan], Receipt]
    keys: Sequence[Key]
    request_id: str = ""

    def plan(self, plan: CommitPlan) -> None:
        """Do the work."""
        try:
            self.answer = self.work(plan)
        except Fault as fault:
            self.answer = fault


@dataclass(slots=True, kw_only=True)
class StatementJob(Job[Receipt]):
    """What takes statements of its own. `work` does it with an engine's step of a commit, at once or to be awaited."""

    work: Callable[[Any], Any]


AnyPlannedJob = PlannedJob[Written] | PlannedJob[Deleted]
AnyJob = Job[Written] | Job[Deleted] | Job[Erased] | Job[ExpiryResult]


def requests_of(jobs: Iterable[AnyPlannedJob]) -> set[RequestKey]:
    """Return the requests that may have come before, for each user whom they would have got ids for."""
    asked = (job for job in jobs if job.request_id)
    return {(user, digest_of(job.request_id)) for job in asked for user, message_id in job.keys if not message_id}


def keys_of(plan: CommitPlan, jobs: Iterable[AnyPlannedJob]) -> list[Key]:
    """Return the messages that have to be looked up for jobs, when their requests have been."""
    wanted = set[Key]()
    for job in jobs:
        wanted |= {key for key in job.keys if key[1]} | plan.previous_keys(job.request_id, job.keys)
    return sorted(wanted)


def groups(jobs: Iterable[AnyJob]) -> Iterator[list[AnyJob]]:
    """Return the jobs in their order: those that can be planned together, others alone."""
    for together, some in groupby(jobs, lambda job: isinstance(job, PlannedJob)):
        if together:
            yield list(some)
        else:
            yield from ([job] for job in some)


class QueuedLogWriter:
    """Makes jobs of what is called: what the writers of all engines are. Implements `LogWriter` and `ExpiredMessages`.

    Args:
        queue_max: how many jobs may wait; more are refused with OVERLOADED.
        queue_max_bytes: how many bytes of messages may wait; the same.
        partitions: how many queues there are. All jobs about a user are in one.
    """

    def __init__(self, queue_max: int, queue_max_bytes: int, partitions: int = 1) -> None:
        self._partitions = partitions
        self._queue: WriteQueue[AnyJob] = WriteQueue(queue_max, queue_max_bytes, partitions)

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return self._queue.waiting

    async def write(self, messages: Sequence[Message], *, on_conflict: OnConflict, request_id: str = "") -> Written:
        """Store a batch, all or nothing; returns when it is durable."""
        keys = [(message.user_id, message.message_id) for message in messages]
        job = PlannedJob[Written](
            work=lambda plan: plan.write(messages, on_conflict, request_id), keys=keys, request_id=request_id
        )
        return await self._submit(job, keys[0][0] if keys else "", sum(map(_size_of, messages)))

    async def delete(self, user_id: str, message_ids: Sequence[str]) -> Deleted:
        """Delete messages of one user; returns when it is durable."""
        keys = [(user_id, message_id) for message_id in message_ids]
        job = PlannedJob[Deleted](work=lambda plan: plan.delete(user_id, message_ids), keys=keys)
        return await self._submit(job, user_id, sum(map(len, message_ids)))

    async def delete_matching(self, user_id: str, narrowed: Filter) -> Deleted:
        """Delete whatever a filter admits, all or nothing; returns when it is durable."""
        return await self._submit(
            StatementJob[Deleted](work=lambda step: step.delete_matching(user_id, narrowed)), user_id
        )

    async def erase(self, user_id: str) -> Erased:
        """Delete everything of one user; returns when it is durable."""
        return await self._submit(StatementJob[Erased](work=lambda step: step.erase(user_id)), user_id)

    async def remove_expired(self, after: str, most: int) -> ExpiryResult:
        """Remove up to `most` messages that have expired."""
        return await self._submit(StatementJob[ExpiryResult](work=lambda step: step.remove_expired(after, most)), "")

    async def _submit(self, job: Job[Receipt], user_id: str, size: int = 0) -> Receipt:
        partition = bucket_of(user_id) % self._partitions
        self._queue.put(job, size, partition)
        self._wake(partition)
        return await asyncio.wrap_future(job.done)

    def _wake(self, partition: int) -> None:
        """Have what waits in a partition committed."""
        raise NotImplementedError


class MeteredLogWriter:
    """A `LogWriter` around another.

    Args:
        within: the log.
        meters: count what it has committed.
    """

    def __init__(self, within: LogWriter, meters: Meters) -> None:
        self._within = within
        self._meters = meters

    async def write(self, messages: Sequence[Message], *, on_conflict: OnConflict, request_id: str = "") -> Written:
        """Store a batch, all or nothing; returns when it is durable."""
        written = await self._within.write(messages, on_conflict=on_conflict, request_id=request_id)
        for outcome in written.outcomes:
            self._meters.count(catalog.WRITTEN, outcome.value)
        return written

    async def delete(self, user_id: str, message_ids: Sequence[str]) -> Deleted:
        """Delete messages of one user; returns when it is durable."""
        deleted = await self._within.delete(user_id, message_ids)
        self._meters.count(catalog.DELETED, "ids", by=deleted.deleted)
        return deleted

    async def delete_matching(self, user_id: str, narrowed: Filter) -> Deleted:
        """Delete whatever a filter admits, all or nothing; returns when it is durable."""
        deleted = await self._within.delete_matching(user_id, narrowed)
        self._meters.count(catalog.DELETED, "filter", by=deleted.deleted)
        return deleted

    async def erase(self, user_id: str) -> Erased:
        """Delete everything of one user; returns when it is durable."""
        erased = await self._within.erase(user_id)
        self._meters.count(catalog.DELETED, "user", by=erased.deleted)
        return erased
