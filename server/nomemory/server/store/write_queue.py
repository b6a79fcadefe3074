"""The write queue, in which jobs of concurrent callers wait for a shared commit."""

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
from nomemory.server.store.buckets import compute_bucket
from nomemory.server.store.commit import CommitPlan, Key, RequestKey, digest_request_id
from nomemory.server.store.expiry_sweeper import ExpiryResult
from nomemory.server.store.protocol import LogWriter
from nomemory.server.store.results import DeletionReceipt, ErasureReceipt, OnConflict, WriteReceipt

_RETRY_AFTER_S = 0.2

Queued = TypeVar("Queued")


class WriteQueue(Generic[Queued]):
    """A bounded FIFO queue of jobs with partitions. The event loop adds jobs, and the writer takes them.

    Args:
        jobs_max: maximum number of queued jobs in all partitions.
        bytes_max: maximum size of the queued jobs in all partitions; an empty queue also accepts a larger job.
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
            Fault: OVERLOADED, the queue is full.
        """
        with self._lock:
            if self._would_exceed_limits(size):
                limits = f"{self._jobs_max:,} writes or {self._bytes_max:,} bytes"
                raise Fault(
                    Reason.ERROR_REASON_OVERLOADED,
                    f"the write queue is full: at most {limits} may wait; retry later",
                    retry_after_s=_RETRY_AFTER_S,
                )
            self._partitions[partition].append((job, size))
            self._waiting += 1
            self._bytes += size

    @property
    def job_count(self) -> int:
        """The number of queued jobs."""
        return self._waiting

    def take(self, limit: int, partition: int = 0) -> list[Queued]:
        """Remove and return up to `limit` jobs of a partition."""
        jobs = self._partitions[partition]
        with self._lock:
            taken = [jobs.popleft() for _ in range(min(len(jobs), limit))]
            self._waiting -= len(taken)
            self._bytes -= sum(size for _, size in taken)
        return [job for job, _ in taken]

    def _would_exceed_limits(self, size: int) -> bool:
        return self._waiting >= self._jobs_max or (self._waiting > 0 and self._bytes + size > self._bytes_max)


def _measure_message(message: Message) -> int:
    metadata = sum(len(key) + len(value) for key, value in message.metadata.items())
    return len(message.content.encode()) + metadata + len(message.embedding or b"")


Receipt = TypeVar("Receipt", WriteReceipt, DeletionReceipt, ErasureReceipt, ExpiryResult)


@dataclass(slots=True, kw_only=True)
class WriteJob(Generic[Receipt]):
    """A write operation, with the future that its caller awaits."""

    done: Future[Receipt] = field(default_factory=Future)
    result: Receipt | Fault | None = None

    def resolve(self, failure: BaseException | None = None) -> None:
        """Resolve the future with `failure` if it is not None, otherwise with the result of the job."""
        if self.done.done():
            return
        if failure is not None:
            self.done.set_exception(failure)
        elif isinstance(self.result, Fault):
            self.done.set_exception(self.result)
        elif self.result is not None:
            self.done.set_result(self.result)


@dataclass(slots=True, kw_only=True)
class PlannedJob(WriteJob[Receipt]):
    """A job that is planned in memory, so that it can share a commit with other jobs.

    Attributes:
        work: adds the changes of the job to a commit plan.
        keys: the keys of the messages that the job changes; a message id is empty if it has to be generated.
        request_id: the idempotency key of the batch; empty for none.
    """

    work: Callable[[CommitPlan], Receipt]
    keys: Sequence[Key]
    request_id: str = ""

    def plan(self, plan: CommitPlan) -> None:
        """Add the changes of the job to a commit plan, and store the receipt or the fault in `result`."""
        try:
            self.result = self.work(plan)
        except Fault as fault:
            self.result = fault


@dataclass(slots=True, kw_only=True)
class StatementJob(WriteJob[Receipt]):
    """A job that executes its own SQL statements; `work` receives the transaction and may return an awaitable."""

    work: Callable[[Any], Any]


AnyPlannedJob = PlannedJob[WriteReceipt] | PlannedJob[DeletionReceipt]
AnyJob = WriteJob[WriteReceipt] | WriteJob[DeletionReceipt] | WriteJob[ErasureReceipt] | WriteJob[ExpiryResult]


def collect_request_keys(jobs: Iterable[AnyPlannedJob]) -> set[RequestKey]:
    """Return the keys of the jobs' requests that an earlier commit may have processed."""
    with_ids = (job for job in jobs if job.request_id)
    return {
        (user, digest_request_id(job.request_id)) for job in with_ids for user, message_id in job.keys if not message_id
    }


def collect_message_keys(plan: CommitPlan, jobs: Iterable[AnyPlannedJob]) -> list[Key]:
    """Return the keys of the messages to look up for jobs, whose request records must already be in the plan."""
    keys = set[Key]()
    for job in jobs:
        keys |= {key for key in job.keys if key[1]} | plan.find_assigned_keys(job.request_id, job.keys)
    return sorted(keys)


def group_jobs(jobs: Iterable[AnyJob]) -> Iterator[list[AnyJob]]:
    """Group jobs in their order: consecutive planned jobs together, and each statement job alone."""
    for is_planned, group in groupby(jobs, lambda job: isinstance(job, PlannedJob)):
        if is_planned:
            yield list(group)
        else:
            yield from ([job] for job in group)


class QueuedLogWriter:
    """Base class of the writers; implements `LogWriter` and `ExpiredMessageDeleter`, and queues each write as a job.

    Args:
        queue_max: maximum number of queued jobs; further jobs are rejected with OVERLOADED.
        queue_max_bytes: maximum size of the queued messages; further jobs are rejected with OVERLOADED.
        partitions: number of partitions of the queue; a batch is in the partition of its first user.
    """

    def __init__(self, queue_max: int, queue_max_bytes: int, partitions: int = 1) -> None:
        self._partitions = partitions
        self._queue: WriteQueue[AnyJob] = WriteQueue(queue_max, queue_max_bytes, partitions)

    @property
    def queued_job_count(self) -> int:
        """The number of queued jobs."""
        return self._queue.job_count

    async def write(
        self, messages: Sequence[Message], *, on_conflict: OnConflict, request_id: str = ""
    ) -> WriteReceipt:
        """Store a batch of messages atomically and durably."""
        keys = [(message.user_id, message.message_id) for message in messages]
        job = PlannedJob[WriteReceipt](
            work=lambda plan: plan.plan_write(messages, on_conflict, request_id), keys=keys, request_id=request_id
        )
        return await self._submit_job(job, keys[0][0] if keys else "", sum(map(_measure_message, messages)))

    async def delete(self, user_id: str, message_ids: Sequence[str]) -> DeletionReceipt:
        """Delete messages of a user durably."""
        keys = [(user_id, message_id) for message_id in message_ids]
        job = PlannedJob[DeletionReceipt](work=lambda plan: plan.plan_deletion(user_id, message_ids), keys=keys)
        return await self._submit_job(job, user_id, sum(map(len, message_ids)))

    async def delete_matching(self, user_id: str, message_filter: Filter) -> DeletionReceipt:
        """Delete the messages that match a filter, atomically and durably."""
        return await self._submit_job(
            StatementJob[DeletionReceipt](
                work=lambda transaction: transaction.delete_matching(user_id, message_filter)
            ),
            user_id,
        )

    async def erase(self, user_id: str) -> ErasureReceipt:
        """Delete all data of a user durably."""
        return await self._submit_job(
            StatementJob[ErasureReceipt](work=lambda transaction: transaction.erase(user_id)), user_id
        )

    async def delete_expired_messages(self, after: str, limit: int) -> ExpiryResult:
        """Remove up to `limit` expired messages."""
        return await self._submit_job(
            StatementJob[ExpiryResult](work=lambda transaction: transaction.delete_expired_messages(after, limit)), ""
        )

    async def _submit_job(self, job: WriteJob[Receipt], user_id: str, size: int = 0) -> Receipt:
        partition = compute_bucket(user_id) % self._partitions
        self._queue.put(job, size, partition)
        self._wake(partition)
        return await asyncio.wrap_future(job.done)

    def _wake(self, partition: int) -> None:
        """Start committing the queued jobs of a partition."""
        raise NotImplementedError


class MeteredLogWriter:
    """A `LogWriter` that wraps another writer and counts the committed changes in metrics."""

    def __init__(self, writer: LogWriter, meters: Meters) -> None:
        self._writer = writer
        self._meters = meters

    async def write(
        self, messages: Sequence[Message], *, on_conflict: OnConflict, request_id: str = ""
    ) -> WriteReceipt:
        """Store a batch of messages atomically and durably."""
        written = await self._writer.write(messages, on_conflict=on_conflict, request_id=request_id)
        for outcome in written.outcomes:
            self._meters.count(catalog.WRITTEN, outcome.value)
        return written

    async def delete(self, user_id: str, message_ids: Sequence[str]) -> DeletionReceipt:
        """Delete messages of a user durably."""
        deleted = await self._writer.delete(user_id, message_ids)
        self._meters.count(catalog.DELETED, "ids", by=deleted.deleted)
        return deleted

    async def delete_matching(self, user_id: str, message_filter: Filter) -> DeletionReceipt:
        """Delete the messages that match a filter, atomically and durably."""
        deleted = await self._writer.delete_matching(user_id, message_filter)
        self._meters.count(catalog.DELETED, "filter", by=deleted.deleted)
        return deleted

    async def erase(self, user_id: str) -> ErasureReceipt:
        """Delete all data of a user durably."""
        erased = await self._writer.erase(user_id)
        self._meters.count(catalog.DELETED, "user", by=erased.deleted)
        return erased
