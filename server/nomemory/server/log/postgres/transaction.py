"""One commit of the log in PostgreSQL.

It locks the rows in `buckets` of all users whom it may change, in ascending order, so that no two commits wait for each
other. The numbers of `log_sequence` are drawn when all locks are held, and the locks are held to the commit: so the
sequences of one bucket become visible in their order. How many are needed is not known then, so there are gaps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from nomemory.server.log.expiry import Lifetimes
from nomemory.server.log.position import bucket_of
from nomemory.server.log.postgres import statements
from nomemory.server.log.postgres.changes import Changes, ReadWords, columns
from nomemory.server.log.postgres.connections import NumbersBehindError
from nomemory.server.log.postgres.rows import Clause, Expiry
from nomemory.server.log.postgres.rows import numbered as with_numbers
from nomemory.server.log.protocol import Deleted, OnConflict, Written
from nomemory.server.log.writing import (
    NUMBER_BYTES,
    BatchPlan,
    Key,
    Named,
    Version,
    digest_of,
    nameless_users,
    numbered,
    plan_batch,
    reused,
    to_remember,
)
from nomemory.server.message import IdNumbers, Message, id_of

if TYPE_CHECKING:
    from nomemory.server.log.postgres.connections import Connection

RequestKey = tuple[str, bytes]
"""A user, and the digest of a request's id."""


class BucketState(NamedTuple):
    """The latest sequence of a bucket, and the number of the latest id that was made in it, if any was."""

    sequence: int
    last_id: bytes


class PostgresTransaction:
    """One commit. What exists is looked up at once for all its jobs. They are planned one after another, in memory.

    First `begin`, then `lock`, then anything else, `commit` at last.

    What has expired does not exist for them; it is removed.

    Args:
        connection: to the log; nobody else uses it meanwhile.
        lifetimes: tells what has expired.
        read_words: reads what a row holds for search by words.

    Raises (any method that is awaited): one of the database's errors.
    """

    def __init__(self, connection: Connection, lifetimes: Lifetimes, read_words: ReadWords) -> None:
        self._connection = connection
        self._expiry = Expiry(lifetimes)
        self._existing: dict[Key, Version] = {}
        self._known: dict[RequestKey, tuple[int, int]] = {}
        self._held: dict[int, BucketState] = {}
        self._last_ids: dict[int, int] = {}
        self.changes = Changes(read_words)

    @property
    def has_changes(self) -> bool:
        """Whether the log is another one after it."""
        return bool(self.changes.sequence)

    async def begin(self) -> None:
        """Begin it. Nothing is locked yet."""
        await self._connection.execute(statements.BEGIN)

    async def lock(self, user_ids: Iterable[str], numbers: int) -> None:
        """Wait until nobody else writes to the buckets of some users, and take up where the last commits ended.

        Once in a transaction, for all users whom it may change.

        Args:
            user_ids: the users.
            numbers: how many sequences `write`, `delete`, `remove` and `look_up` may need at most.

        Raises:
            NumbersBehindError: it cannot be written before a server is started again, which mends it.
        """
        wanted = sorted(set(map(bucket_of, user_ids)))
        ((buckets, sequences, last_ids, drawn),) = await self.fetch(statements.LOCKED, wanted, numbers)
        if drawn and drawn[0] <= max(sequences):
            raise NumbersBehindError
        self._held = dict(zip(buckets, map(BucketState, sequences, last_ids), strict=True))
        self._last_ids = {bucket: int.from_bytes(held.last_id, "big") for bucket, held in self._held.items()}
        self.changes.may_change(dict(zip(buckets, sequences, strict=True)), drawn)

    async def commit(self) -> None:
        """Write what was put together, durably."""
        changes, buckets = self.changes, self._changed_buckets()
        if buckets:
            dropped, messages = changes.dropped(), changes.messages()
            if dropped[0]:
                await self.fetch(statements.REMOVE, *dropped)
            if messages:
                await self._connection.copy_records_to_table(
                    "messages", records=messages, columns=statements.MESSAGE_COLUMNS
                )
            await self.fetch(statements.FINISH, *changes.others(), *columns(buckets, 3))
        await self._connection.execute("COMMIT")

    async def rollback(self) -> None:
        """Undo everything."""
        await self._connection.execute("ROLLBACK")

    async def fetch(self, statement: str, *values: Any) -> list[Any]:  # noqa: ANN401 - as the statement says
        """Return all rows of a statement with question marks."""
        return list(await self._connection.fetch(with_numbers(statement), *values))

    def latest_of(self, user_id: str) -> int:
        """Return the latest sequence of a user's bucket, with what is planned by now."""
        return self.changes.latest[bucket_of(user_id)]

    async def look_up(self, keys: Iterable[Key], requests: Iterable[tuple[str, Sequence[Message]]] = ()) -> int:
        """Learn which of some messages exist, and which of some batches with a request's id came before.

        What has expired is removed; return how many messages that was. Once in a transaction, before anything is
        planned.
        """
        wanted = set(keys)
        if batches := [batch for batch in requests if nameless_users(batch[1])]:
            await self._look_up_requests(batches)
            wanted |= self._ids_of_requests(batches)
        if not wanted:
            return 0
        living = self._expiry.living()
        places = columns([(bucket_of(user), user, message) for user, message in sorted(wanted)], 3)
        statement = statements.EXISTING.format(living=living.condition)
        expired = dict[Key, Version]()
        for lives, user, message_id, *version in await self.fetch(statement, *living.values, *places):
            (self._existing if lives else expired)[user, message_id] = Version(*version)
        self.remove(expired)
        return len(expired)

    def write(self, messages: Sequence[Message], on_conflict: OnConflict, request_id: str) -> Written:
        """Store a batch.

        Raises:
            Fault: MESSAGE_CONFLICT; then nothing of the batch is stored.
        """
        named = self._name(messages, request_id)
        plan = plan_batch(named.messages, self._existing, on_conflict)
        self._store(plan)
        self.changes.remember(named.requests)
        self._known |= {
            (user, digest): (int.from_bytes(first, "big"), size) for user, digest, first, size in named.requests
        }
        ids = tuple(message.message_id for message in named.messages)
        return Written(tuple(plan.outcomes), self.changes.sequence if plan.stores else plan.covering, ids)

    def delete(self, user_id: str, message_ids: Sequence[str]) -> Deleted:
        """Delete messages of one user."""
        wanted = [(user_id, message_id) for message_id in dict.fromkeys(message_ids)]
        found = {key: self._existing[key] for key in wanted if key in self._existing}
        self.remove(found)
        missing = tuple(
            message_id for key, message_id in zip(wanted, dict.fromkeys(message_ids), strict=True) if key not in found
        )
        return Deleted(len(found), missing, self.latest_of(user_id))

    def remove(self, versions: Mapping[Key, Version]) -> None:
        """Remove versions that nothing takes the place of."""
        self.changes.remove(versions)
        for key in versions:
            self._existing.pop(key, None)
        for user_id, messages in Counter(user for user, _ in versions).items():
            self.changes.count(user_id, -messages)

    async def remove_where(self, user_id: str, which: Clause) -> int:
        """Remove at once what a condition admits of a user; return how many messages that was."""
        statement = statements.REMOVE_WHERE.format(which=which.condition)
        ((removed, latest),) = await self.fetch(statement, *which.values)
        if removed:
            self.changes.sequence = latest
            self.changes.count(user_id, -removed)
        return int(removed)

    def _store(self, plan: BatchPlan) -> None:
        self.changes.remove(plan.removes)
        for key, store in plan.stores.items():
            sequence = self.changes.store(key, store)
            self._existing[key] = Version(store.message.ts_us, sequence, store.wire, store.message.embedding)
        created = Counter(user for user, message in plan.stores if (user, message) not in plan.removes)
        for user_id in dict.fromkeys(user for user, _ in plan.stores):
            self.changes.count(user_id, created[user_id])

    def _name(self, messages: Sequence[Message], request_id: str) -> Named:
        """Give an id to every message that has none.

        Raises:
            Fault: MESSAGE_CONFLICT, the request id was another batch's.
        """
        nameless = nameless_users(messages)
        if not nameless:
            return Named(messages)
        if not request_id:
            return Named(numbered(messages, dict.fromkeys(nameless, self._take_ids(nameless, len(messages)))))
        digest = digest_of(request_id)
        known = {user: self._known[user, digest] for user in nameless if (user, digest) in self._known}
        if any(size != len(messages) for _, size in known.values()):
            raise reused()
        first = {user: number for user, (number, _) in known.items()}
        new = nameless - first.keys()
        if not new:
            return Named(numbered(messages, first))
        taken = self._take_ids(new, len(messages))
        return Named(
            numbered(messages, {**first, **dict.fromkeys(new, taken)}), to_remember(new, digest, taken, len(messages))
        )

    def _take_ids(self, user_ids: Iterable[str], count: int) -> int:
        """Return the first of so many numbers of ids in a row, larger than all that any of the users got."""
        buckets = set(map(bucket_of, user_ids))
        ids = IdNumbers(max(self._last_ids[bucket] for bucket in buckets))
        first = ids.take(count)
        self._last_ids |= dict.fromkeys(buckets, ids.last)
        return first

    def _changed_buckets(self) -> list[tuple[int, int, bytes]]:
        """Return the state of each bucket that is another one now."""
        now = {
            bucket: BucketState(self.changes.latest[bucket], number.to_bytes(NUMBER_BYTES, "big") if number else b"")
            for bucket, number in self._last_ids.items()
        }
        return [(bucket, *state) for bucket, state in now.items() if state != self._held[bucket]]

    async def _look_up_requests(self, batches: Sequence[tuple[str, Sequence[Message]]]) -> None:
        wanted = {(user, digest_of(request)) for request, messages in batches for user in nameless_users(messages)}
        places = columns([(bucket_of(user), user, digest) for user, digest in sorted(wanted)], 3)
        for user, digest, first, size in await self.fetch(statements.REQUESTS, *places):
            self._known[user, digest] = int.from_bytes(first, "big"), size

    def _ids_of_requests(self, batches: Sequence[tuple[str, Sequence[Message]]]) -> set[Key]:
        """Return the messages that batches which came before have got ids for."""
        found = set[Key]()
        for request_id, messages in batches:
            digest = digest_of(request_id)
            for place, message in enumerate(messages):
                known = self._known.get((message.user_id, digest))
                if known is not None and not message.message_id:
                    found.add((message.user_id, id_of(known[0] + place)))
        return found
