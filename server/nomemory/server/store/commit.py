"""Plan the changes of one commit of the message log in memory.

All batches of a commit are planned one after another before the first change is written.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

from nomemory.server import wire
from nomemory.server.faults import Reason, Violation, build_field_fault
from nomemory.server.message import Message
from nomemory.server.message_ids import IdAllocator, encode_message_id
from nomemory.server.metadata_hashes import build_retraction_key, compute_entry_hash_bytes
from nomemory.server.store.buckets import compute_bucket
from nomemory.server.store.checksums import compute_checksum
from nomemory.server.store.results import DeletionReceipt, OnConflict, WriteOutcome, WriteReceipt
from nomemory.server.store.tables import METADATA, REMOVALS, REQUESTS, USERS, VECTORS, Row, Table
from nomemory.server.store.versions import BucketState, MessageVersion, StoredRequest

NUMBER_BYTES: Final = 16
"""Size in bytes of an id number, which is stored as a big-endian integer."""

CONFLICT: Final = "exists with other content or fields"

Key = tuple[str, str]
"""`(user_id, message_id)`: the identity of a message across versions."""

RequestKey = tuple[str, bytes]
"""`(user_id, request digest)`."""


class _PlannedWrite(NamedTuple):
    """A message version that the commit will write."""

    message: Message
    wire: bytes
    sequence: int


@dataclass(slots=True)
class _Batch:
    """The planned changes of one call of `plan_write`.

    Attributes:
        stores: messages to write, with their encoded bytes.
        removes: stored versions that the new versions replace.
        covering: the latest sequence number of the stored messages that the batch leaves unchanged; 0 for none.
    """

    stores: dict[Key, tuple[Message, bytes]] = field(default_factory=dict)
    removes: dict[Key, MessageVersion] = field(default_factory=dict)
    outcomes: list[WriteOutcome] = field(default_factory=list)
    covering: int = 0


def digest_request_id(request_id: str) -> bytes:
    """Return the digest under which a request id is stored."""
    return hashlib.blake2b(request_id.encode(), digest_size=16).digest()


def _find_users_without_ids(messages: Sequence[Message]) -> set[str]:
    return {message.user_id for message in messages if not message.message_id}


class CommitPlan:
    """The changes of one commit, without versions that the commit itself would remove again.

    Call `begin` first, then `add_request` and `add_existing_messages`, then the other methods.

    Args:
        bucket: returns the bucket of a user; each bucket has its own latest sequence number and latest generated id.

    Attributes:
        sequence: the latest sequence number that the plan has assigned; 0 before the first assignment.
        dropped: the stored versions that the commit deletes.
        erasures: the deleted messages for the register of erasures, as `(sequence, user_id, message_id)`.
    """

    def __init__(self, bucket: Callable[[str], int] = compute_bucket) -> None:
        self.sequence = 0
        self.dropped = dict[Key, MessageVersion]()
        self.erasures = list[tuple[int, str, str]]()
        self._bucket = bucket
        self._initial_states: Mapping[int, BucketState] = {}
        self._sequences = dict[int, int]()
        self._last_ids = dict[int, int]()
        self._numbers: Iterator[int] = iter(())
        self._existing = dict[Key, MessageVersion]()
        self._known_requests = dict[RequestKey, StoredRequest]()
        self._planned_writes = dict[Key, _PlannedWrite]()
        self._removals = list[Row]()
        self._requests = list[RequestKey]()
        self._counts = Counter[str]()
        self._counted_at = dict[str, int]()

    def begin(self, states: Mapping[int, BucketState], numbers: Iterable[int]) -> None:
        """Set the bucket states before the commit and the sequence numbers that the plan may assign.

        Args:
            states: the state of each bucket that the commit may change.
            numbers: ascending sequence numbers, larger than those of all earlier changes.
        """
        self._initial_states = states
        self._sequences = {bucket: state.sequence for bucket, state in states.items()}
        self._last_ids = {bucket: state.last_id for bucket, state in states.items()}
        self._numbers = iter(numbers)

    def add_request(self, key: RequestKey, request: StoredRequest) -> None:
        """Add the record of a request that an earlier commit has processed."""
        self._known_requests[key] = request

    def add_existing_messages(
        self, existing: Mapping[Key, MessageVersion], expired: Mapping[Key, MessageVersion]
    ) -> None:
        """Add the stored messages that the commit may change, and plan the removal of the expired ones."""
        self._existing |= existing
        self.remove_versions(expired)

    def find_assigned_keys(self, request_id: str, keys: Iterable[Key]) -> set[Key]:
        """Return the generated keys of the messages of an earlier request with the same id; empty for a new request."""
        digest, assigned = digest_request_id(request_id), set[Key]()
        for index, (user_id, message_id) in enumerate(keys):
            request = self._known_requests.get((user_id, digest))
            if request is not None and not message_id:
                assigned.add((user_id, encode_message_id(request.first_id + index)))
        return assigned

    def get_latest_sequence(self, user_id: str) -> int:
        """Return the latest sequence number of a user's bucket, including planned changes."""
        return self._sequences[self._bucket(user_id)]

    def plan_write(self, messages: Sequence[Message], on_conflict: OnConflict, request_id: str) -> WriteReceipt:
        """Plan to store a batch of messages.

        Raises:
            Fault: MESSAGE_CONFLICT, an id exists with different content or the request id was used for another batch.
                After a fault, no message of the batch is stored.
        """
        messages, new_requests = self._assign_ids(messages, request_id)
        batch = self._plan_batch(messages, on_conflict)
        self._store_batch(batch)
        self._known_requests |= new_requests
        self._requests += new_requests
        ids = tuple(message.message_id for message in messages)
        return WriteReceipt(tuple(batch.outcomes), self.sequence if batch.stores else batch.covering, ids)

    def plan_deletion(self, user_id: str, message_ids: Sequence[str]) -> DeletionReceipt:
        """Plan to delete messages of one user, and register their erasure."""
        unique_ids = dict.fromkeys(message_ids)
        keys = ((user_id, message_id) for message_id in unique_ids)
        versions = {key: self._existing[key] for key in keys if key in self._existing}
        self.remove_versions(versions)
        self.erasures += [(self.sequence, *key) for key in versions]
        missing = tuple(message_id for message_id in unique_ids if (user_id, message_id) not in versions)
        return DeletionReceipt(len(versions), missing, self.get_latest_sequence(user_id))

    def remove_versions(self, versions: Mapping[Key, MessageVersion]) -> None:
        """Plan to remove message versions without replacing them."""
        self._remove_versions(versions)
        for key in versions:
            self._existing.pop(key, None)
        for user_id, messages in Counter(user for user, _ in versions).items():
            self._add_to_count(user_id, -messages)

    def remove_versions_up_to(self, sequences: Mapping[Key, int]) -> int:
        """Plan to remove messages unless their version is newer than in `sequences`; return the number of removals."""
        versions = {key: self._existing[key] for key in sequences if key in self._existing}
        affected = {key: version for key, version in versions.items() if version.sequence <= sequences[key]}
        self.remove_versions(affected)
        return len(affected)

    def record_removals(self, user_id: str, removed: int, sequence: int) -> None:
        """Record that a statement removed messages of a user; `sequence` is the sequence number of the last removal."""
        if removed:
            self.sequence = sequence
            self._add_to_count(user_id, -removed)

    def build_message_rows(self) -> Iterator[tuple[Message, Row]]:
        """Yield each message to store, with its row of the message table."""
        for m, encoded, sequence in self._planned_writes.values():
            crc = compute_checksum(m.user_id, sequence, encoded)
            yield (
                m,
                (
                    *(m.user_id, m.ts_us, m.message_id, sequence),
                    *(m.role.value, m.conversation_id, encoded, m.expire_us, crc),
                ),
            )

    def build_rows_by_table(self) -> dict[Table, list[Row]]:
        """Return the rows of all tables except the message table.

        The rows of the table `users` contain the change in the number of messages.
        """
        stored = [store.message for store in self._planned_writes.values()]
        return {
            REMOVALS: self._removals,
            METADATA: list(chain.from_iterable(map(build_metadata_rows, stored))),
            VECTORS: [(m.user_id, m.message_id, m.embedding) for m in stored if m.embedding is not None],
            USERS: [(user, self._counted_at[user], messages) for user, messages in sorted(self._counts.items())],
            REQUESTS: [(*key, *_encode_request(self._known_requests[key])) for key in self._requests],
        }

    def find_changed_buckets(self) -> dict[int, BucketState]:
        """Return the new state of each bucket that has changed."""
        states = {
            bucket: BucketState(self._sequences[bucket], self._last_ids[bucket]) for bucket in self._initial_states
        }
        return {bucket: state for bucket, state in states.items() if state != self._initial_states[bucket]}

    def _assign_ids(
        self, messages: Sequence[Message], request_id: str
    ) -> tuple[Sequence[Message], dict[RequestKey, StoredRequest]]:
        """Assign an id to every message without one, and return the requests to store.

        Raises:
            Fault: MESSAGE_CONFLICT, the request id was used for another batch.
        """
        users = _find_users_without_ids(messages)
        if not users:
            return messages, {}
        digest = digest_request_id(request_id)
        requests = {
            user: self._known_requests[user, digest]
            for user in users
            if request_id and (user, digest) in self._known_requests
        }
        if any(request.size != len(messages) for request in requests.values()):
            violation = Violation("request_id", "was already used for a batch of another size; use a new request_id")
            raise build_field_fault(Reason.ERROR_REASON_MESSAGE_CONFLICT, violation)
        new = sorted(users - requests.keys())
        if new:
            requests |= dict.fromkeys(new, StoredRequest(self._reserve_ids(new, len(messages)), len(messages)))
        with_ids = [
            message
            if message.message_id
            else message._replace(message_id=encode_message_id(requests[message.user_id].first_id + index))
            for index, message in enumerate(messages)
        ]
        return with_ids, {(user, digest): requests[user] for user in new if request_id}

    def _reserve_ids(self, user_ids: Iterable[str], count: int) -> int:
        """Reserve `count` consecutive id numbers above all earlier id numbers of these users; return the first."""
        buckets = set(map(self._bucket, user_ids))
        ids = IdAllocator(max(self._last_ids[bucket] for bucket in buckets))
        first = ids.allocate(count)
        self._last_ids |= dict.fromkeys(buckets, ids.last)
        return first

    def _plan_batch(self, messages: Sequence[Message], on_conflict: OnConflict) -> _Batch:
        batch = _Batch()
        batch.outcomes += [self._plan_message(batch, message, on_conflict) for message in messages]
        conflicts = [index for index, outcome in enumerate(batch.outcomes) if outcome is WriteOutcome.CONFLICT]
        if conflicts and on_conflict is OnConflict.REFUSE:
            violations = [Violation(f"messages[{index}].message_id", CONFLICT) for index in conflicts]
            raise build_field_fault(Reason.ERROR_REASON_MESSAGE_CONFLICT, *violations)
        return batch

    def _plan_message(self, batch: _Batch, message: Message, on_conflict: OnConflict) -> WriteOutcome:
        key = (message.user_id, message.message_id)
        existing = self._existing.get(key)
        present: tuple[bytes, bytes | None] | None = None
        if key in batch.stores:
            planned, planned_wire = batch.stores[key]
            present, message = (planned_wire, planned.embedding), _keep_stored_time(message, planned.ts_us)
        elif existing is not None:
            present, message = (existing.wire, existing.embedding), _keep_stored_time(message, existing.ts_us)
        encoded = wire.encode(message)
        if present == (encoded, message.embedding):
            batch.covering = max(batch.covering, existing.sequence if existing else 0)
            return WriteOutcome.UNCHANGED
        if present is not None and on_conflict is not OnConflict.REPLACE:
            return WriteOutcome.CONFLICT
        if existing is not None:
            batch.removes[key] = existing
        batch.stores[key] = message, encoded
        return WriteOutcome.CREATED if present is None else WriteOutcome.REPLACED

    def _store_batch(self, batch: _Batch) -> None:
        self._remove_versions(batch.removes)
        for key, (message, encoded) in batch.stores.items():
            self._planned_writes[key] = _PlannedWrite(message, encoded, self._allocate_sequence())
            self._existing[key] = MessageVersion(message.ts_us, self.sequence, encoded, message.embedding)
        for user_id, message_id in batch.stores:
            self._add_to_count(user_id, int((user_id, message_id) not in batch.removes))

    def _remove_versions(self, versions: Mapping[Key, MessageVersion]) -> None:
        for key, version in versions.items():
            self._removals.append((self._allocate_sequence(), *key, version.sequence))
            if self._planned_writes.pop(key, None) is None:
                self.dropped[key] = version

    def _add_to_count(self, user_id: str, messages: int) -> None:
        """Add `messages` to a user's message count, and record the latest sequence number as the user's last change."""
        self._counts[user_id] += messages
        self._counted_at[user_id] = self._sequences[self._bucket(user_id)] = self.sequence

    def _allocate_sequence(self) -> int:
        self.sequence = next(self._numbers)
        return self.sequence


def _keep_stored_time(message: Message, ts_us: int) -> Message:
    """Give an undated message the time of its stored version, so that a retry does not change the message."""
    return message._replace(ts_us=ts_us) if message.is_undated else message


def build_metadata_rows(message: Message) -> Iterator[Row]:
    """Yield the rows of `metadata_entries` for the metadata and retractions of a message."""
    for mark in chain(
        map(compute_entry_hash_bytes, message.metadata.items()), map(build_retraction_key, message.retracts)
    ):
        yield message.user_id, mark, message.ts_us, message.message_id


def _encode_request(request: StoredRequest) -> tuple[bytes, int]:
    return request.first_id.to_bytes(NUMBER_BYTES, "big"), request.size
