"""Plan what one commit of the log changes.

Batches are planned one after another, in memory, before anything is written. Messages without ids get generated ones.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

from nomemory.server import wire
from nomemory.server.faults import Reason, Violation, bad_field
from nomemory.server.message import Message
from nomemory.server.message_ids import IdAllocator, id_of
from nomemory.server.metadata_hashes import entry_hash_bytes, retraction_key
from nomemory.server.store.buckets import bucket_of
from nomemory.server.store.checksums import checksum
from nomemory.server.store.results import Deleted, OnConflict, WriteOutcome, Written
from nomemory.server.store.tables import METADATA, REMOVALS, REQUESTS, USERS, VECTORS, Row, Table
from nomemory.server.store.versions import BucketState, StoredRequest, Version

NUMBER_BYTES: Final = 16
"""How a number of an id is kept: big-endian, in so many bytes."""

CONFLICT: Final = "exists with other content or fields"

Key = tuple[str, str]
"""`(user_id, message_id)`: what identifies a message, whatever its version."""

RequestKey = tuple[str, bytes]
"""A user, and the digest of a request's id."""


class _Store(NamedTuple):
    """A version that is to be written."""

    message: Message
    wire: bytes
    sequence: int


@dataclass(slots=True)
class _Batch:
    """What is to be stored of a batch, which versions go, and the outcome of each message."""

    stores: dict[Key, tuple[Message, bytes]] = field(default_factory=dict)
    removes: dict[Key, Version] = field(default_factory=dict)
    outcomes: list[WriteOutcome] = field(default_factory=list)
    covering: int = 0


def digest_of(request_id: str) -> bytes:
    """Return the digest of a request's id."""
    return hashlib.blake2b(request_id.encode(), digest_size=16).digest()


def _nameless_users(messages: Sequence[Message]) -> set[str]:
    return {message.user_id for message in messages if not message.message_id}


class CommitPlan:
    """What a commit stores and removes. A version that comes and goes within it is never written.

    First `begin`, then `learn`, then anything else; then its rows are written.

    Args:
        bucket: tells a user's bucket. Each has sequences and ids of its own.

    Attributes:
        sequence: the latest sequence that was given out; 0 before the first.
        dropped: the stored versions that go.
    """

    def __init__(self, bucket: Callable[[str], int] = bucket_of) -> None:
        self.sequence = 0
        self.dropped = dict[Key, Version]()
        self._bucket = bucket
        self._held: Mapping[int, BucketState] = {}
        self._latest = dict[int, int]()
        self._last_ids = dict[int, int]()
        self._numbers: Iterator[int] = iter(())
        self._existing = dict[Key, Version]()
        self._known = dict[RequestKey, StoredRequest]()
        self._stores = dict[Key, _Store]()
        self._removals = list[Row]()
        self._requests = list[RequestKey]()
        self._counts = Counter[str]()
        self._counted_at = dict[str, int]()

    def begin(self, held: Mapping[int, BucketState], numbers: Iterable[int]) -> None:
        """Take up where the last commits ended.

        Args:
            held: the state of each bucket that the commit may change.
            numbers: larger numbers than all that were given out, which ascend.
        """
        self._held = held
        self._latest = {bucket: state.sequence for bucket, state in held.items()}
        self._last_ids = {bucket: state.last_id for bucket, state in held.items()}
        self._numbers = iter(numbers)

    def add_request(self, key: RequestKey, known: StoredRequest) -> None:
        """Learn of a request that came before."""
        self._known[key] = known

    def add_existing(self, existing: Mapping[Key, Version], expired: Mapping[Key, Version]) -> None:
        """Learn of messages that exist, and of some that have expired, which go."""
        self._existing |= existing
        self.remove(expired)

    def previous_keys(self, request_id: str, keys: Iterable[Key]) -> set[Key]:
        """Return the keys that the messages without an id of a request got when it came before, if it did."""
        digest, found = digest_of(request_id), set[Key]()
        for place, (user_id, message_id) in enumerate(keys):
            known = self._known.get((user_id, digest))
            if known is not None and not message_id:
                found.add((user_id, id_of(known.first_id + place)))
        return found

    def latest_sequence_of(self, user_id: str) -> int:
        """Return the latest sequence of a user's bucket, with what is planned by now."""
        return self._latest[self._bucket(user_id)]

    def write(self, messages: Sequence[Message], on_conflict: OnConflict, request_id: str) -> Written:
        """Store a batch.

        Raises:
            Fault: MESSAGE_CONFLICT, naming every message whose id exists with other content, or the request's id;
                then nothing of the batch is stored.
        """
        named, to_remember = self._named(messages, request_id)
        batch = self._planned(named, on_conflict)
        self._store(batch)
        self._known |= to_remember
        self._requests += to_remember
        ids = tuple(message.message_id for message in named)
        return Written(tuple(batch.outcomes), self.sequence if batch.stores else batch.covering, ids)

    def delete(self, user_id: str, message_ids: Sequence[str]) -> Deleted:
        """Delete messages of one user."""
        wanted = dict.fromkeys(message_ids)
        keys = ((user_id, message_id) for message_id in wanted)
        found = {key: self._existing[key] for key in keys if key in self._existing}
        self.remove(found)
        missing = tuple(message_id for message_id in wanted if (user_id, message_id) not in found)
        return Deleted(len(found), missing, self.latest_sequence_of(user_id))

    def remove(self, versions: Mapping[Key, Version]) -> None:
        """Remove versions that nothing takes the place of."""
        self._remove(versions)
        for key in versions:
            self._existing.pop(key, None)
        for user_id, messages in Counter(user for user, _ in versions).items():
            self._count(user_id, -messages)

    def record_removed(self, user_id: str, removed: int, sequence: int) -> None:
        """Note that a statement has removed messages of a user, the last of them at a sequence."""
        if removed:
            self.sequence = sequence
            self._count(user_id, -removed)

    def messages(self) -> Iterator[tuple[Message, Row]]:
        """Return the messages that are stored, and the row of each."""
        for m, encoded, sequence in self._stores.values():
            crc = checksum(m.user_id, sequence, encoded)
            place = (m.user_id, m.ts_us, m.message_id, sequence)
            yield m, (*place, m.role.value, m.conversation_id, encoded, m.expire_us, crc)

    def other_rows(self) -> dict[Table, list[Row]]:
        """Return the rows of the other tables. Those of users say by how much their messages become more."""
        stored = [store.message for store in self._stores.values()]
        return {
            REMOVALS: self._removals,
            METADATA: list(chain.from_iterable(map(entries_of, stored))),
            VECTORS: [(m.user_id, m.message_id, m.embedding) for m in stored if m.embedding is not None],
            USERS: [(user, self._counted_at[user], messages) for user, messages in sorted(self._counts.items())],
            REQUESTS: [(*key, *_as_stored(self._known[key])) for key in self._requests],
        }

    def changed_buckets(self) -> dict[int, BucketState]:
        """Return the state of each bucket that is another one now."""
        now = {bucket: BucketState(self._latest[bucket], self._last_ids[bucket]) for bucket in self._held}
        return {bucket: state for bucket, state in now.items() if state != self._held[bucket]}

    def _named(
        self, messages: Sequence[Message], request_id: str
    ) -> tuple[Sequence[Message], dict[RequestKey, StoredRequest]]:
        """Give an id to every message that has none; return what is to be remembered of that, too.

        Raises:
            Fault: MESSAGE_CONFLICT, the request id was another batch's.
        """
        nameless = _nameless_users(messages)
        if not nameless:
            return messages, {}
        digest = digest_of(request_id)
        known = {user: self._known[user, digest] for user in nameless if request_id and (user, digest) in self._known}
        if any(request.size != len(messages) for request in known.values()):
            violation = Violation("request_id", "was used for a batch of another size")
            raise bad_field(Reason.ERROR_REASON_MESSAGE_CONFLICT, violation)
        new = sorted(nameless - known.keys())
        if new:
            known |= dict.fromkeys(new, StoredRequest(self._take_ids(new, len(messages)), len(messages)))
        named = [
            message
            if message.message_id
            else message._replace(message_id=id_of(known[message.user_id].first_id + place))
            for place, message in enumerate(messages)
        ]
        return named, {(user, digest): known[user] for user in new if request_id}

    def _take_ids(self, user_ids: Iterable[str], count: int) -> int:
        """Return the first of so many numbers of ids in a row, larger than all that any of the users got."""
        buckets = set(map(self._bucket, user_ids))
        ids = IdAllocator(max(self._last_ids[bucket] for bucket in buckets))
        first = ids.allocate(count)
        self._last_ids |= dict.fromkeys(buckets, ids.last)
        return first

    def _planned(self, messages: Sequence[Message], on_conflict: OnConflict) -> _Batch:
        batch = _Batch()
        batch.outcomes += [self._placed(batch, message, on_conflict) for message in messages]
        conflicts = [place for place, outcome in enumerate(batch.outcomes) if outcome is WriteOutcome.CONFLICT]
        if conflicts and on_conflict is OnConflict.REFUSE:
            violations = [Violation(f"messages[{place}].message_id", CONFLICT) for place in conflicts]
            raise bad_field(Reason.ERROR_REASON_MESSAGE_CONFLICT, *violations)
        return batch

    def _placed(self, batch: _Batch, message: Message, on_conflict: OnConflict) -> WriteOutcome:
        key = (message.user_id, message.message_id)
        existing = self._existing.get(key)
        present: tuple[bytes, bytes | None] | None = None
        if key in batch.stores:
            former, former_wire = batch.stores[key]
            present, message = (former_wire, former.embedding), _dated(message, former.ts_us)
        elif existing is not None:
            present, message = (existing.wire, existing.embedding), _dated(message, existing.ts_us)
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

    def _store(self, batch: _Batch) -> None:
        self._remove(batch.removes)
        for key, (message, encoded) in batch.stores.items():
            self._stores[key] = _Store(message, encoded, self._next())
            self._existing[key] = Version(message.ts_us, self.sequence, encoded, message.embedding)
        for user_id, message_id in batch.stores:
            self._count(user_id, int((user_id, message_id) not in batch.removes))

    def _remove(self, versions: Mapping[Key, Version]) -> None:
        for key, version in versions.items():
            self._removals.append((self._next(), *key, version.sequence))
            if self._stores.pop(key, None) is None:
                self.dropped[key] = version

    def _count(self, user_id: str, messages: int) -> None:
        """Note that a user has so many messages more, as of now. It is the latest change of the user's bucket, too."""
        self._counts[user_id] += messages
        self._counted_at[user_id] = self._latest[self._bucket(user_id)] = self.sequence

    def _next(self) -> int:
        self.sequence = next(self._numbers)
        return self.sequence


def _dated(message: Message, ts_us: int) -> Message:
    """Return a message with the time of the one that has its id, if it brought none: so a retry changes nothing."""
    return message._replace(ts_us=ts_us) if message.is_undated else message


def entries_of(message: Message) -> Iterator[Row]:
    """Return the rows of a message's metadata, and of what it takes back."""
    for mark in chain(map(entry_hash_bytes, message.metadata.items()), map(retraction_key, message.retracts)):
        yield message.user_id, mark, message.ts_us, message.message_id


def _as_stored(request: StoredRequest) -> tuple[bytes, int]:
    return request.first_id.to_bytes(NUMBER_BYTES, "big"), request.size
