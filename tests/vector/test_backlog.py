"""The backlog loses no pending messages, in any order of operations, and survives a log migration."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nomemory.server.indexing.vector.backlog import Backlog, BacklogCounts, BacklogReader, PendingMessage
from nomemory.server.indexing.vector.backlog_migration import split_backlogs_into_buckets
from nomemory.server.store.buckets import BUCKETS, compute_bucket
from nomemory.server.store.change_feed import ChangeRef
from nomemory.server.store.feed_position import FeedPosition

USERS = ["ann", "bob"]
MESSAGES = ["m1", "m2", "m3"]


def change(sequence: int, user_id: str = "ann", message_id: str = "m1") -> ChangeRef:
    return ChangeRef(sequence, user_id, message_id)


@pytest.fixture
def backlog(tmp_path: Path) -> Iterator[Backlog]:
    backlog = Backlog(tmp_path / "collection" / "vectors.db")
    yield backlog
    backlog.close()


@pytest.fixture
def reader(backlog: Backlog) -> Iterator[BacklogReader]:
    reader = BacklogReader(backlog.path)
    yield reader
    reader.close()


def test_oldest_messages_are_indexed_first(backlog: Backlog) -> None:
    backlog.add_changes([change(3, "bob"), change(1, "ann"), change(2, "cid")], FeedPosition.from_sequence(3))
    assert [item.user_id for item in backlog.read_pending_messages([], 2)] == ["ann", "cid"]


def test_hot_users_are_indexed_first_in_equal_shares(backlog: Backlog) -> None:
    backlog.add_changes([change(n, "ann", f"m{n}") for n in range(1, 9)], FeedPosition.from_sequence(8))
    backlog.add_changes([change(n, "bob", f"m{n}") for n in range(11, 19)], FeedPosition.from_sequence(18))
    backlog.add_changes([change(n, "cid", f"m{n}") for n in range(21, 29)], FeedPosition.from_sequence(28))
    taken = backlog.read_pending_messages(["cid", "nobody", "bob"], 6)
    assert [item.user_id for item in taken] == ["cid", "cid", "bob", "bob", "ann", "ann"]
    assert len(set(backlog.read_pending_messages(["bob", "cid"], 100))) == 24


def test_a_message_that_changed_meanwhile_stays_pending(backlog: Backlog, reader: BacklogReader) -> None:
    backlog.add_changes([change(1)], FeedPosition.from_sequence(1))
    taken = backlog.read_pending_messages([], 1)
    backlog.add_changes([change(2)], FeedPosition.from_sequence(2))
    backlog.mark_applied(taken)
    assert backlog.read_pending_messages([], 1) == [PendingMessage("ann", "m1", 2)]
    assert reader.is_behind("ann", 1)


def test_unflushed_messages_are_pending_after_a_crash(tmp_path: Path) -> None:
    first = Backlog(tmp_path / "vectors.db")
    first.add_changes([change(1, "ann"), change(2, "bob")], FeedPosition.from_sequence(2))
    ann, bob = first.read_pending_messages([], 2)
    first.mark_applied([ann])
    first.delete_applied_rows()
    first.mark_applied([bob])
    first.close()
    second = Backlog(tmp_path / "vectors.db")
    assert second.read_pending_messages([], 9) == [bob]
    assert second.read_feed_position().latest == 2
    second.close()


def test_dead_letters_become_pending_when_the_message_changes(backlog: Backlog, reader: BacklogReader) -> None:
    backlog.add_changes([change(1), change(2, "bob", "m2")], FeedPosition.from_sequence(2))
    backlog.add_dead_letters(dict.fromkeys(backlog.read_pending_messages([], 2), "TEXT_REFUSED"))
    assert backlog.read_pending_messages(["ann"], 9) == []
    assert not reader.is_behind("ann", 2)
    assert reader.count_messages() == BacklogCounts(pending=0, dead_letters=2)
    assert reader.count_messages("ann") == BacklogCounts(pending=0, dead_letters=1)
    assert reader.list_dead_letter_ids("bob") == ["m2"]
    assert reader.read_checkpoint().latest == 2
    backlog.add_changes([change(3)], FeedPosition.from_sequence(3))
    assert backlog.read_pending_messages([], 9) == [PendingMessage("ann", "m1", 3)]
    assert not reader.is_behind("ann", 2)
    assert reader.is_behind("ann", 3)
    assert reader.list_dead_letter_ids("ann") == []


def test_dead_letter_ids_are_limited(backlog: Backlog, reader: BacklogReader) -> None:
    backlog.add_changes([change(n, "ann", f"m{n:03}") for n in range(150)], FeedPosition.from_sequence(150))
    backlog.add_dead_letters(dict.fromkeys(backlog.read_pending_messages([], 150), "TEXT_REFUSED"))
    assert reader.list_dead_letter_ids("ann") == [f"m{n:03}" for n in range(100)]


def test_starting_over_clears_the_backlog(backlog: Backlog, reader: BacklogReader) -> None:
    backlog.add_changes([change(1), change(2, "bob")], FeedPosition.from_sequence(2))
    backlog.start_over()
    assert (backlog.read_feed_position().latest, backlog.read_pending_messages([], 9), reader.count_messages()) == (
        0,
        [],
        BacklogCounts(0, 0),
    )
    assert reader.is_behind("ann", 1)


@dataclass
class Row:
    """The expected state of a message."""

    oldest: int
    latest: int
    state: str = "pending"


class BacklogMachine(RuleBasedStateMachine):
    """Applies the same operations to a backlog and to a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.rows: dict[tuple[str, str], Row] = {}
        self.sequence = 0
        self.taken: list[PendingMessage] = []
        self.open()

    def open(self) -> None:
        self.backlog = Backlog(self.directory / "vectors.db")
        self.reader = BacklogReader(self.directory / "vectors.db")

    def teardown(self) -> None:
        self.reader.close()
        self.backlog.close()
        shutil.rmtree(self.directory)

    @rule(messages=st.lists(st.tuples(st.sampled_from(USERS), st.sampled_from(MESSAGES)), max_size=4))
    def feed(self, messages: list[tuple[str, str]]) -> None:
        changes = [change(self.sequence + n, *message) for n, message in enumerate(messages, 1)]
        self.sequence += len(changes)
        self.backlog.add_changes(changes, FeedPosition.from_sequence(self.sequence))
        for entry in changes:
            row = self.rows.setdefault((entry.user_id, entry.message_id), Row(entry.sequence, entry.sequence))
            row.oldest = entry.sequence if row.state == "dead_letters" else row.oldest
            row.latest, row.state = entry.sequence, "pending"

    @rule(hot=st.lists(st.sampled_from([*USERS, "nobody"]), unique=True), limit=st.integers(1, 7))
    def take(self, hot: list[str], limit: int) -> None:
        self.taken = self.backlog.read_pending_messages(hot, limit)
        pending = {key: row for key, row in self.rows.items() if row.state == "pending"}
        assert {(i.user_id, i.message_id): i.latest for i in self.taken}.items() <= {
            key: row.latest for key, row in pending.items()
        }.items()
        assert len(self.taken) == min(limit, len(pending))

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        some = data.draw(st.lists(st.sampled_from(self.taken), unique=True))
        state = data.draw(st.sampled_from(["applied", "dead_letters"]))
        if state == "applied":
            self.backlog.mark_applied(some)
        else:
            self.backlog.add_dead_letters(dict.fromkeys(some, "TEXT_REFUSED"))
        for item in some:
            row = self.rows.get((item.user_id, item.message_id))
            if row is not None and row.latest == item.latest and row.state == "pending":
                row.state = state

    @rule()
    def flush(self) -> None:
        self.backlog.delete_applied_rows()
        self.rows = {key: row for key, row in self.rows.items() if row.state != "applied"}

    @rule()
    def crash(self) -> None:
        self.reader.close()
        self.backlog.close()
        self.open()
        for row in self.rows.values():
            row.state = "pending" if row.state == "applied" else row.state

    @invariant()
    def agrees(self) -> None:
        pending = [(key, row) for key, row in self.rows.items() if row.state == "pending"]
        dead_letters = [key for key, row in self.rows.items() if row.state == "dead_letters"]
        assert (
            self.reader.read_feed_position()
            == self.backlog.read_feed_position()
            == FeedPosition.from_sequence(self.sequence)
        )
        assert self.reader.count_messages() == BacklogCounts(len(pending), len(dead_letters))
        assert self.reader.read_checkpoint().latest == min(
            (row.oldest - 1 for _, row in pending), default=self.sequence
        )
        for user in USERS:
            oldest = min((row.oldest for key, row in pending if key[0] == user), default=self.sequence + 1)
            assert self.reader.has_pending_messages(user) == (oldest <= self.sequence)
            assert self.reader.list_dead_letter_ids(user) == sorted(key[1] for key in dead_letters if key[0] == user)
            for sequence in (oldest - 1, oldest, self.sequence, self.sequence + 1):
                assert self.reader.is_behind(user, sequence) == (sequence >= oldest)


TestBacklogMachine = BacklogMachine.TestCase
TestBacklogMachine.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)


def test_a_damaged_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "vectors.db"
    Backlog(path).close()
    path.write_bytes(b"this is no database, whatever its name says" * 100)
    backlog = Backlog(path)
    assert backlog.read_feed_position().latest == 0
    backlog.close()


ANN, BOB = "ann", next(user for user in map("bob{}".format, count()) if compute_bucket(user) != compute_bucket("ann"))


def at(sequence: int, **others: int) -> FeedPosition:
    """Return a position with different sequences in the buckets of some users."""
    by_bucket = {compute_bucket(user): other for user, other in others.items()}
    return FeedPosition(tuple(by_bucket.get(bucket, sequence) for bucket in range(BUCKETS)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model-8" / "vectors.db"


def begun(path: Path, changes: list[ChangeRef], until: FeedPosition) -> None:
    with closing(Backlog(path)) as backlog:
        backlog.record_log("log")
        backlog.add_changes(changes, until)


def test_a_backlog_of_one_bucket_is_split(path: Path, tmp_path: Path) -> None:
    begun(path, [ChangeRef(3, ANN, "a"), ChangeRef(7, BOB, "b")], FeedPosition.from_sequence(9))
    for _ in range(2):  # an interrupted migration repeats this step
        split_backlogs_into_buckets(tmp_path)
    with closing(Backlog(path)) as backlog:
        assert backlog.read_feed_position() == at(9)
        assert backlog.read_checkpoint() == at(9, **{ANN: 2, BOB: 6})
        assert [message.message_id for message in backlog.read_pending_messages([], 9)] == ["a", "b"]
        backlog.mark_applied(backlog.read_pending_messages([ANN], 1))
        assert backlog.read_checkpoint() == at(9, **{BOB: 6})
