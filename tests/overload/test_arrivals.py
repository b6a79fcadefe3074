"""Requests on their way in: so many are read at once, connections take turns, and slow ones give way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from nomemory.server.faults import Fault, Reason
from nomemory.server.overload.arrivals import Arrivals
from nomemory.server.overload.places import Places, ProvenConnections
from nomemory.server.settings import Settings


def arrivals(proven: ProvenConnections | None = None, **settings: float) -> Arrivals:
    given = {"reading_max": 2, "reading_s": 0.01} | settings
    return Arrivals(Settings.from_environment(**given).connections, proven or ProvenConnections(10))


async def never() -> bytes:
    await asyncio.Event().wait()
    return b""


async def at_once() -> bytes:
    return b"whole"


def begin(reads: Arrivals, connection: str, read: Callable[[], Awaitable[bytes]]) -> asyncio.Task[bytes]:
    return asyncio.create_task(reads.whole(connection, read))


async def refused(task: asyncio.Task[bytes]) -> bool:
    with pytest.raises(Fault) as error:
        await task
    return error.value.reason == Reason.ERROR_REASON_OVERLOADED and error.value.retry_after_s is not None


async def test_who_is_slow_gives_way_only_where_others_wait() -> None:
    reads = arrivals()
    slow = [begin(reads, "a", never) for _ in range(2)]
    await asyncio.sleep(0.05)
    assert not any(task.done() for task in slow)
    async with asyncio.timeout(5):
        assert await reads.whole("b", at_once) == b"whole"
        assert await refused(slow[0])
    await asyncio.sleep(0.05)
    assert not slow[1].done()
    slow[1].cancel()


async def test_the_connection_that_has_most_gives_way_first_and_a_proven_one_last() -> None:
    proven = ProvenConnections(10)
    proven.prove("known")
    reads = arrivals(proven, reading_max=4)
    known, one, *many = [begin(reads, name, never) for name in ("known", "one", "many", "many")]
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        assert await reads.whole("b", at_once) == b"whole"
        assert [await refused(task) for task in many] == [True, True]
    assert [task.done() for task in (known, one)] == [False, False]
    for task in (known, one):
        task.cancel()


async def test_connections_take_turns() -> None:
    reads, order = arrivals(reading_max=1, reading_s=5.0), list[str]()
    gate = asyncio.Event()

    async def gated() -> bytes:
        await gate.wait()
        return b""

    def noted(name: str) -> Callable[[], Awaitable[bytes]]:
        async def read() -> bytes:
            order.append(name)
            return b""

        return read

    first = begin(reads, "loud", gated)
    await asyncio.sleep(0)
    others = [begin(reads, "loud", noted("loud")) for _ in range(3)] + [begin(reads, "quiet", noted("quiet"))]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(first, *others)
    assert order.index("quiet") == 1


async def test_who_goes_away_while_waiting_holds_up_nobody() -> None:
    reads = arrivals(reading_max=1)
    slow = begin(reads, "a", never)
    await asyncio.sleep(0)
    waiting = begin(reads, "b", never)
    await asyncio.sleep(0)
    for task in (waiting, slow):
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow
    async with asyncio.timeout(5):
        assert await reads.whole("c", at_once) == b"whole"


async def test_a_place_is_taken_from_who_has_more_and_has_kept_it_waiting() -> None:
    places = Places(2, 0.0, 1.0, ProvenConnections(10))

    async def wait(connection: str) -> bytes:
        with places.held(connection) as guest:
            return await guest.awaits(never())

    many = [asyncio.create_task(wait("many")) for _ in range(2)]
    await asyncio.sleep(0)
    one = asyncio.create_task(wait("one"))
    assert await refused(many[0])
    with pytest.raises(Fault), places.held("one"):
        pass
    for task in (many[1], one):
        task.cancel()
