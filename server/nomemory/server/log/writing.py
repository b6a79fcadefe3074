"""What happens to a batch before an engine writes it: it waits in a queue, gets ids, and is planned."""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from nomemory.server import wire
from nomemory.server.faults import Fault, Reason, Violation, bad_field
from nomemory.server.log.protocol import Deleted, Erased, LogWriter, OnConflict, Outcome, Written
from nomemory.server.message import Filter, Message, id_of
from nomemory.server.metrics import catalog
from nomemory.server.metrics.meters import Meters

_RETRY_AFTER_S = 0.2

Job = TypeVar("Job")


def size_of(message: Message) -> int:
    """Return about how many bytes a message takes, from its content, metadata and vector."""
    metadata = sum(len(key) + len(value) for key, value in message.metadata.items())
    return len(message.content.encode()) + metadata + len(message.embedding or b"")


class WriteQueue(Generic[Job]):
    """First in, first out, between the event loop that puts and the thread that takes.

    Args:
        jobs_max: how many jobs may wait.
        bytes_max: how large they may be together. A larger one can wait alone.
        partitions: how many queues it is. The limits are of all together.
    """

    def __init__(self, jobs_max: int, bytes_max: int, partitions: int = 1) -> None:
        self._jobs_max = jobs_max
        self._bytes_max = bytes_max
        self._partitions: list[deque[tuple[Job, int]]] = [deque() for _ in range(partitions)]
        self._waiting = 0
        self._bytes = 0
        self._lock = threading.Lock()

    def put(self, job: Job, size: int, partition: int = 0) -> None:
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

    def take(self, most: int, partition: int = 0) -> list[Job]:
        """Take up to `most` jobs of a partition."""
        jobs = self._partitions[partition]
        with self._lock:
            taken = [jobs.popleft() for _ in range(min(len(jobs), most))]
            self._waiting -= len(taken)
            self._bytes -= sum(size for _, size in taken)
        return [job for job, _ in taken]

    def _is_full_for(self, size: int) -> bool:
        return self._waiting >= self._jobs_max or (self._waiting > 0 and self._bytes + size > self._bytes_max)


NUMBER_BYTES: Final = 16
"""How a number is kept: big-endian, in so many bytes."""


class Named(NamedTuple):
    """A batch in which every message has an id, and what to remember of its request.

    `requests` has the user, the digest of the request's id, the first number and the size of the batch.
    """

    messages: Sequence[Message]
    requests: Sequence[tuple[str, bytes, bytes, int]] = ()


def digest_of(request_id: str) -> bytes:
    """Return the digest of a request's id."""
    return hashlib.blake2b(request_id.encode(), digest_size=16).digest()


def nameless_users(messages: Sequence[Message]) -> set[str]:
    """Return the users of the messages that have no id."""
    return {message.user_id for message in messages if not message.message_id}


def numbered(messages: Sequence[Message], first: Mapping[str, int]) -> list[Message]:
    """Name the messages by their places, counted from the first number of their user."""
    return [
        message if message.message_id else message._replace(message_id=id_of(first[message.user_id] + place))
        for place, message in enumerate(messages)
    ]


def to_remember(users: set[str], digest: bytes, first: int, size: int) -> list[tuple[str, bytes, bytes, int]]:
    """Return what is remembered of a request, for each user who got ids."""
    encoded = first.to_bytes(NUMBER_BYTES, "big")
    return [(user, digest, encoded, size) for user in sorted(users)]


def reused() -> Fault:
    """Return the fault of a request id that was another batch's."""
    violation = Violation("request_id", "was used for a batch of another size")
    return bad_field(Reason.ERROR_REASON_MESSAGE_CONFLICT, violation)


Key = tuple[str, str]
"""`(user_id, message_id)`: what identifies a message, whatever its version."""

CONFLICT = "exists with other content or fields"


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a message that the log holds."""

    ts_us: int
    sequence: int
    wire: bytes
    embedding: bytes | None


@dataclass(frozen=True, slots=True)
class Store:
    """A version that is to be written."""

    message: Message
    wire: bytes


@dataclass(slots=True)
class BatchPlan:
    """What is to be stored, which versions go, and the outcome of each message of the batch."""

    stores: dict[Key, Store] = field(default_factory=dict)
    removes: dict[Key, Version] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    covering: int = 0


def plan_batch(messages: Sequence[Message], existing: Mapping[Key, Version], on_conflict: OnConflict) -> BatchPlan:
    """Plan a batch against the versions that exist.

    Raises:
        Fault: MESSAGE_CONFLICT, naming every message whose id exists with other content.
    """
    plan = BatchPlan()
    for message in messages:
        plan.outcomes.append(_place(plan, message, existing, on_conflict))
    conflicts = [position for position, outcome in enumerate(plan.outcomes) if outcome is Outcome.CONFLICT]
    if conflicts and on_conflict is OnConflict.REFUSE:
        raise _conflict(conflicts)
    return plan


def _conflict(positions: Sequence[int]) -> Fault:
    violations = [Violation(f"messages[{position}].message_id", CONFLICT) for position in positions]
    return bad_field(Reason.ERROR_REASON_MESSAGE_CONFLICT, *violations)


def _place(plan: BatchPlan, message: Message, existing: Mapping[Key, Version], on_conflict: OnConflict) -> Outcome:
    key = (message.user_id, message.message_id)
    encoded = wire.encode(message)
    present = _present(plan, key, existing)
    if present == (encoded, message.embedding):
        plan.covering = max(plan.covering, existing[key].sequence if key in existing else 0)
        return Outcome.UNCHANGED
    if present is not None and on_conflict is not OnConflict.REPLACE:
        return Outcome.CONFLICT
    if key in existing:
        plan.removes[key] = existing[key]
    plan.stores[key] = Store(message, encoded)
    return Outcome.CREATED if present is None else Outcome.REPLACED


def _present(plan: BatchPlan, key: Key, existing: Mapping[Key, Version]) -> tuple[bytes, bytes | None] | None:
    if key in plan.stores:
        return plan.stores[key].wire, plan.stores[key].message.embedding
    if key in existing:
        return existing[key].wire, existing[key].embedding
    return None


class MeteredLog:
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
