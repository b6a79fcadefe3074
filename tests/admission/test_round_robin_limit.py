"""Tests for the concurrency limit with round-robin scheduling over keys."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.server.runtime.round_robin_limit import RoundRobinLimit


class Worker:
    """A task that holds a slot until it is stopped."""

    def __init__(self, limit: RoundRobinLimit, key: str, order: list[str]) -> None:
        self._limit, self._key, self._order = limit, key, order
        self.works, self.end = asyncio.Event(), asyncio.Event()
        self.task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        async with self._limit.slot(self._key):
            self._order.append(self._key)
            self.works.set()
            await self.end.wait()


async def all_queued(limit: RoundRobinLimit, count: int) -> None:
    while limit.waiting < count:  # noqa: ASYNC110 - there is no event for that
        await asyncio.sleep(0)


async def test_slots_are_granted_round_robin_by_key() -> None:
    limit, order = RoundRobinLimit(1), list[str]()
    workers = [Worker(limit, key, order) for key in ["first", *["loud"] * 20, *["quiet"] * 2, "other"]]
    await all_queued(limit, 23)
    for worker in workers:
        worker.end.set()
    await asyncio.gather(*(worker.task for worker in workers))
    assert order[:7] == ["first", "loud", "quiet", "other", "loud", "quiet", "loud"]
    assert (limit.running, limit.waiting) == (0, 0)


async def test_cancelled_task_leaves_the_queue() -> None:
    limit, order = RoundRobinLimit(1), list[str]()
    working, cancelled, last = (Worker(limit, key, order) for key in ("working", "cancelled", "last"))
    await all_queued(limit, 2)
    cancelled.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled.task
    assert limit.waiting == 1
    working.end.set()
    await last.works.wait()
    assert order == ["working", "last"]
    last.end.set()
    await asyncio.gather(working.task, last.task)


async def test_slot_of_a_task_cancelled_while_granted_is_granted_to_the_next() -> None:
    limit, order = RoundRobinLimit(1), list[str]()
    working, cancelled, last = (Worker(limit, key, order) for key in ("working", "cancelled", "last"))
    await all_queued(limit, 2)
    working.end.set()
    while limit.waiting == 2:  # noqa: ASYNC110 - as above
        await asyncio.sleep(0)
    cancelled.task.cancel()
    await last.works.wait()
    assert order == ["working", "last"]
    last.end.set()
    await asyncio.gather(working.task, last.task)
    assert limit.running == 0


@given(
    st.lists(st.tuples(st.integers(0, 20), st.sampled_from("abc"), st.booleans(), st.booleans()), max_size=60),
    st.integers(1, 3),
)
def test_slots_are_never_shared_or_lost(steps: list[tuple[int, str, bool, bool]], slots: int) -> None:
    asyncio.run(_held(steps, slots))


async def _held(steps: list[tuple[int, str, bool, bool]], slots: int) -> None:
    limit, workers, order = RoundRobinLimit(slots), list[Worker](), list[str]()
    for number, key, is_cancelled, pauses in steps:
        if number >= len(workers):
            workers.append(Worker(limit, key, order))
        elif is_cancelled:
            workers[number].task.cancel()
        else:
            workers[number].end.set()
        if pauses:
            await asyncio.sleep(0)
        assert limit.running <= slots
    for worker in workers:
        worker.end.set()
    await asyncio.gather(*(worker.task for worker in workers), return_exceptions=True)
    assert (limit.running, limit.waiting) == (0, 0)
