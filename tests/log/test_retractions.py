"""What a message takes back is marked in every read of the log, as long as both are there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from log.engine import Engine, Log

from nomemory.server import wire
from nomemory.server.message import LoggedMessage, Message, Role
from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.store.results import OnConflict, Position
from nomemory.server.store.retention import RetentionPolicy
from nomemory.v1 import message_pb2

USERS: Final = ("u", "v")
KIND: Final = Filter(metadata=(("kind", "x"),))
IDS: Final = ("a", "b", "é", "中😀")


def said(message_id: str, *retracts: str, ts_us: int = 1, user: str = "u") -> Message:
    return Message(user, message_id, ts_us, Role.USER, "x", retracts=retracts)


def marks(found: Sequence[LoggedMessage]) -> dict[str, str]:
    """Return what took back each message, which has to stand in its bytes, too."""
    read = {one.message_id: message_pb2.ChatMessage.FromString(one.wire).retracted_by for one in found}
    assert read == {one.message_id: one.retracted_by for one in found}
    return read


def marks_in(wires: Sequence[bytes]) -> dict[str, str]:
    chats = map(message_pb2.ChatMessage.FromString, wires)
    return {one.message_id: one.retracted_by for one in chats}


async def read_in_every_way(log: Log, user: str) -> list[dict[str, str]]:
    """Return what took back each message of a user, as each read of the log says; nothing where there is no message."""
    reader = log.reader
    pinned = await reader.sequence()
    page = await reader.page(user, EVERYTHING, before=None, pinned=pinned, limit=99)
    found = [
        marks(page),
        marks(list((await reader.by_ids(user, IDS)).values())),
        marks(list((await reader.by_sequences(user, [one.sequence for one in page])).values())),
        marks_in(await reader.encoded_page(user, EVERYTHING, after=None, pinned=pinned, limit=99, oldest_first=True)),
        marks_in(await reader.encoded_page(user, Filter(role=Role.USER), after=None, pinned=pinned, limit=99)),
        marks_in((await reader.first_encoded_page(user, EVERYTHING, limit=99)).messages),
    ]
    if page:
        beside = await reader.encoded_neighbors(user, page[0].message_id, 99, 99)
        assert beside is not None
        found.append(marks_in([*beside.before, beside.anchor, *beside.after]))
        ((before, after),) = await reader.neighbors(page[-1:], 99, 99)
        found.append(marks([*before, page[-1], *after]))
    return found


async def test_what_is_taken_back_stays_and_comes_back(log: Log) -> None:
    await log.write(said("a"), said("b", "a", ts_us=2))
    assert await read_in_every_way(log, "u") == [{"a": "b", "b": ""}] * 8
    assert [message.content for message in await log.everything()] == ["x", "x"]
    await log.writer.delete("u", ["b"])
    assert await read_in_every_way(log, "u") == [{"a": ""}] * 8


async def test_the_id_of_a_message_that_is_yet_to_come_is_marked_when_it_comes(log: Log) -> None:
    await log.write(said("b", "a", ts_us=2))
    await log.write(said("a"))
    assert await read_in_every_way(log, "u") == [{"a": "b", "b": ""}] * 8


async def test_a_retraction_ends_at_the_moment_at_which_its_message_expires(engine: Engine, tmp_path: Path) -> None:
    moment = 10
    log = await engine(tmp_path, RetentionPolicy(now_us=lambda: moment))
    await log.write(said("a"), said("b", "a", ts_us=2)._replace(expire_us=20))
    assert (await read_in_every_way(log, "u"))[0] == {"a": "b", "b": ""}
    moment = 20  # nothing has been removed yet
    assert await read_in_every_way(log, "u") == [{"a": ""}] * 8
    await log.close()


async def test_a_listing_goes_on_where_it_was_whatever_is_taken_back_meanwhile(log: Log) -> None:
    await log.write(*(said(f"{n}", ts_us=n) for n in range(6)))
    pinned = await log.reader.sequence()
    first = await log.reader.page("u", EVERYTHING, before=None, pinned=pinned, limit=3)
    await log.write(said("late", "1", "4", ts_us=9))
    rest = await log.reader.page("u", EVERYTHING, before=Position(3, "3"), pinned=pinned, limit=9)
    assert marks(first) == {"5": "", "4": "", "3": ""}
    assert marks(rest) == {"2": "", "1": "late", "0": ""}


async def test_the_feed_of_the_indexes_has_the_messages_as_they_were_written(log: Log) -> None:
    message, taker = said("a"), said("b", "a", ts_us=2)
    await log.write(message, taker)
    stored = [change.stored for change in log.feed.changes(0, 9)]
    assert [one.wire for one in stored if one] == [wire.encode(message), wire.encode(taker)]


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
    """Change the log, and what a model holds to be in it."""
    match what:
        case "write", batch:
            await log.write(*batch, on_conflict=OnConflict.REPLACE)
            stored |= {(one.user_id, one.message_id): one for one in batch}
        case "delete", user, ids:
            await log.writer.delete(user, ids)
            for one in ids:
                stored.pop((user, one), None)
        case "delete matching", user:
            await log.writer.delete_matching(user, KIND)
            for key in [key for key, one in stored.items() if key[0] == user and KIND.admits(one)]:
                del stored[key]
        case "erase", user:
            await log.writer.erase(user)
            for key in [key for key in stored if key[0] == user]:
                del stored[key]


def expected(stored: dict[tuple[str, str], Message], user: str) -> dict[str, str]:
    own = [one for one in stored.values() if one.user_id == user]
    takers = {message.message_id: [one for one in own if message.message_id in one.retracts] for message in own}
    latest = {
        taken: max(by, key=lambda one: (one.ts_us, one.message_id.encode()), default=None)
        for taken, by in takers.items()
    }
    return {taken: by.message_id if by else "" for taken, by in latest.items()}


@given(changes=st.lists(writes | deletes | others, max_size=8))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_read_marks_what_a_model_holds_to_be_taken_back(
    engine: Engine,
    tmp_path_factory: pytest.TempPathFactory,
    *,
    changes: list[tuple],  # type: ignore[type-arg]
) -> None:
    async def follow() -> None:
        log = await engine(tmp_path_factory.mktemp("log"))
        stored = dict[tuple[str, str], Message]()
        for change in changes:
            await do(log, stored, change)
            for user in USERS:
                wanted = expected(stored, user)
                assert all(found == wanted for found in await read_in_every_way(log, user) if found or wanted)
        await log.close()

    asyncio.run(follow())
