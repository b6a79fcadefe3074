"""Every read marks retracted messages as long as the retraction exists."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hypothesis import given
from hypothesis import strategies as st
from log.engine import Engine, Log

from nomemory.server import wire
from nomemory.server.message import LoggedMessage, Message, Role
from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.store.results import MessagePosition, OnConflict
from nomemory.server.store.retention import RetentionPolicy
from nomemory.v1 import message_pb2

USERS: Final = ("u", "v")
KIND: Final = Filter(metadata=(("kind", "x"),))
IDS: Final = ("a", "b", "é", "中😀")


def new_message(message_id: str, *retracts: str, ts_us: int = 1, user: str = "u") -> Message:
    return Message(user, message_id, ts_us, Role.USER, "x", retracts=retracts)


def marks(messages: Sequence[LoggedMessage]) -> dict[str, str]:
    """Return the retracting id of each message, after checking that the encoded message has it, too."""
    read = {message.message_id: message_pb2.ChatMessage.FromString(message.wire).retracted_by for message in messages}
    assert read == {message.message_id: message.retracted_by for message in messages}
    return read


def marks_in(wires: Sequence[bytes]) -> dict[str, str]:
    chats = map(message_pb2.ChatMessage.FromString, wires)
    return {message.message_id: message.retracted_by for message in chats}


async def read_in_every_way(log: Log, user: str) -> list[dict[str, str]]:
    """Return the retracting id of each message of a user, once for each read."""
    reader = log.reader
    pinned = await reader.read_sequence()
    page = await reader.read_page(user, EVERYTHING, before=None, pinned=pinned, limit=99)
    reads = [
        marks(page),
        marks(list((await reader.read_messages(user, IDS)).values())),
        marks(list((await reader.read_versions(user, [message.sequence for message in page])).values())),
        marks_in(
            await reader.read_encoded_page(user, EVERYTHING, after=None, pinned=pinned, limit=99, oldest_first=True)
        ),
        marks_in(await reader.read_encoded_page(user, Filter(role=Role.USER), after=None, pinned=pinned, limit=99)),
        marks_in((await reader.read_first_encoded_page(user, EVERYTHING, limit=99)).messages),
    ]
    if page:
        neighbors = await reader.read_encoded_neighbors(user, page[0].message_id, 99, 99)
        assert neighbors is not None
        reads.append(marks_in([*neighbors.before, neighbors.anchor, *neighbors.after]))
        ((before, after),) = await reader.read_neighbors(page[-1:], 99, 99)
        reads.append(marks([*before, page[-1], *after]))
    return reads


async def test_a_retracted_message_is_returned_and_unmarked_when_the_retraction_is_deleted(log: Log) -> None:
    await log.write(new_message("a"), new_message("b", "a", ts_us=2))
    assert await read_in_every_way(log, "u") == [{"a": "b", "b": ""}] * 8
    assert [message.content for message in await log.everything()] == ["x", "x"]
    await log.writer.delete("u", ["b"])
    assert await read_in_every_way(log, "u") == [{"a": ""}] * 8


async def test_a_retraction_applies_to_a_later_message(log: Log) -> None:
    await log.write(new_message("b", "a", ts_us=2))
    await log.write(new_message("a"))
    assert await read_in_every_way(log, "u") == [{"a": "b", "b": ""}] * 8


async def test_a_retraction_ends_when_its_message_expires(engine: Engine, tmp_path: Path) -> None:
    moment = 10
    log = await engine(tmp_path, RetentionPolicy(now_us=lambda: moment))
    await log.write(new_message("a"), new_message("b", "a", ts_us=2)._replace(expire_us=20))
    assert (await read_in_every_way(log, "u"))[0] == {"a": "b", "b": ""}
    moment = 20  # nothing has been removed yet
    assert await read_in_every_way(log, "u") == [{"a": ""}] * 8
    await log.close()


async def test_a_listing_continues_despite_new_retractions(log: Log) -> None:
    await log.write(*(new_message(f"{n}", ts_us=n) for n in range(6)))
    pinned = await log.reader.read_sequence()
    first = await log.reader.read_page("u", EVERYTHING, before=None, pinned=pinned, limit=3)
    await log.write(new_message("late", "1", "4", ts_us=9))
    rest = await log.reader.read_page("u", EVERYTHING, before=MessagePosition(3, "3"), pinned=pinned, limit=9)
    assert marks(first) == {"5": "", "4": "", "3": ""}
    assert marks(rest) == {"2": "", "1": "late", "0": ""}


async def test_the_change_feed_does_not_mark_retractions(log: Log) -> None:
    message, taker = new_message("a"), new_message("b", "a", ts_us=2)
    await log.write(message, taker)
    stored = [change.stored for change in log.feed.read_changes(0, 9)]
    assert [item.wire for item in stored if item] == [wire.encode(message), wire.encode(taker)]


one_message = st.builds(
    Message,
    user_id=st.sampled_from(USERS),
    message_id=st.sampled_from(IDS),
    ts_us=st.integers(0, 3),
    role=st.just(Role.USER),
    content=st.just("x"),
    name=st.just(""),
    conversation_id=st.just(""),
    metadata=st.sampled_from([{}, {"kind": "x"}]),
    embedding=st.none(),
    expire_us=st.none(),
    retracts=st.lists(st.sampled_from(IDS), max_size=3, unique=True).map(tuple),
    is_undated=st.just(False),  # noqa: FBT003 - the value itself
)
writes = st.lists(one_message, min_size=1, max_size=5).map(lambda batch: ("write", batch))
deletes = st.tuples(st.just("delete"), st.sampled_from(USERS), st.lists(st.sampled_from(IDS), min_size=1, max_size=2))
others = st.tuples(st.sampled_from(["delete matching", "erase"]), st.sampled_from(USERS))


async def do(log: Log, stored: dict[tuple[str, str], Message], what: tuple) -> None:  # type: ignore[type-arg]
    """Apply an operation to the log and to the reference model."""
    match what:
        case "write", batch:
            await log.write(*batch, on_conflict=OnConflict.REPLACE)
            stored |= {(message.user_id, message.message_id): message for message in batch}
        case "delete", user, ids:
            await log.writer.delete(user, ids)
            for message_id in ids:
                stored.pop((user, message_id), None)
        case "delete matching", user:
            await log.writer.delete_matching(user, KIND)
            for key in [key for key, message in stored.items() if key[0] == user and KIND.admits(message)]:
                del stored[key]
        case "erase", user:
            await log.writer.erase(user)
            for key in [key for key in stored if key[0] == user]:
                del stored[key]


def expected(stored: dict[tuple[str, str], Message], user: str) -> dict[str, str]:
    messages = [message for message in stored.values() if message.user_id == user]
    retractions = {m.message_id: [r for r in messages if m.message_id in r.retracts] for m in messages}
    latest = {
        message_id: max(candidates, key=lambda message: (message.ts_us, message.message_id.encode()), default=None)
        for message_id, candidates in retractions.items()
    }
    return {taken: by.message_id if by else "" for taken, by in latest.items()}


@given(changes=st.lists(writes | deletes | others, max_size=8))
async def test_every_read_marks_retracted_messages_like_the_reference_model(
    log: Log,
    *,
    changes: list[tuple],  # type: ignore[type-arg]
) -> None:
    await log.erase(*USERS)  # the messages of the previous example
    stored = dict[tuple[str, str], Message]()
    for change in changes:
        await do(log, stored, change)
        for user in USERS:
            expected_marks = expected(stored, user)
            assert all(
                read_marks == expected_marks
                for read_marks in await read_in_every_way(log, user)
                if read_marks or expected_marks
            )
