"""Whose turn it is: whatever is asked for, users share fairly, and nobody waits behind another one's backlog."""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from nomemory.server.admission.fair_slots import FairSlots, Stamp, VirtualClock

costs = st.floats(0.5, 50.0)
backlogs = st.dictionaries(st.sampled_from("abcde"), st.lists(costs, min_size=1, max_size=30), min_size=2)


class Shop:
    """Serves requests one at a time in the order of their stamps, and notes how much each key has had."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.queue: list[tuple[Stamp, int, str, float]] = []
        self.served: dict[str, float] = {}
        self._arrivals = 0

    def ask(self, key: str, cost: float) -> None:
        self._arrivals += 1
        heappush(self.queue, (self.clock.stamp(key, cost), self._arrivals, key, cost))

    def serve(self) -> str:
        stamp, _, key, cost = heappop(self.queue)
        self.clock.begin(stamp)
        self.served[key] = self.served.get(key, 0.0) + cost
        return key


@given(backlogs)
def test_users_who_always_have_something_waiting_get_equal_shares(waiting: dict[str, list[float]]) -> None:
    shop = Shop()
    for key, asked in waiting.items():
        for cost in asked:
            shop.ask(key, cost)
    left = {key: len(asked) for key, asked in waiting.items()}
    while all(left.values()):
        left[shop.serve()] -= 1
        for one, other in permutations(waiting, 2):
            apart = shop.served.get(one, 0.0) - shop.served.get(other, 0.0)
            assert apart <= max(waiting[one]) + max(waiting[other]) + 1e-6


@given(st.lists(costs, min_size=1, max_size=100), st.integers(0, 99), costs)
def test_who_was_quiet_waits_behind_at_most_as_much_as_it_asks_for(flood: list[float], begun: int, cost: float) -> None:
    shop = Shop()
    for one in flood:
        shop.ask("flood", one)
    for _ in range(min(begun, len(flood))):
        shop.serve()
    before = shop.served.get("flood", 0.0)
    shop.ask("quiet", cost)
    while shop.serve() != "quiet":
        pass
    assert shop.served.get("flood", 0.0) - before <= cost + max(flood) + 1e-6


def test_a_cheap_read_goes_before_a_dear_one_that_came_with_it() -> None:
    shop = Shop()
    shop.ask("dear", 30.0)
    shop.ask("cheap", 1.0)
    assert shop.serve() == "cheap"


def test_cheap_reads_do_not_keep_a_dear_one_waiting_for_ever() -> None:
    shop = Shop()
    shop.ask("dear", 30.0)
    served = []
    for _ in range(100):
        shop.ask("cheap", 1.0)
        served.append(shop.serve())
    assert "dear" in served[:32]


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=60), st.integers(1, 3))
def test_slots_are_never_given_twice_and_never_lost(steps: list[tuple[int, bool]], number: int) -> None:
    asyncio.run(_slots(steps, number))


async def _slots(steps: list[tuple[int, bool]], number: int) -> None:
    slots, holding, tasks = FairSlots(number), set[int](), dict[int, asyncio.Task[None]]()

    async def work(name: int, stop: asyncio.Event) -> None:
        await slots.take(Stamp(float(name % 5), 0.0))
        try:
            holding.add(name)
            assert len(holding) <= number
            await stop.wait()
        finally:
            holding.discard(name)
            slots.give_back()

    stops: dict[int, asyncio.Event] = {}
    for step, (which, yields) in enumerate(steps):
        if which < len(tasks) and which % 2:
            tasks[which].cancel()
        elif which < len(tasks):
            stops[which].set()
        else:
            stops[len(tasks)] = asyncio.Event()
            tasks[len(tasks)] = asyncio.create_task(work(step, stops[len(tasks)]))
        if yields:
            await asyncio.sleep(0)
    for stop in stops.values():
        stop.set()
    await asyncio.gather(*tasks.values(), return_exceptions=True)
    assert slots.waiting == 0
    for _ in range(number):
        await asyncio.wait_for(slots.take(Stamp(0.0, 0.0)), 1)


async def test_slots_are_given_in_the_order_of_the_stamps_not_of_arrival() -> None:
    slots, order = FairSlots(1), list[float]()
    await slots.take(Stamp(0.0, 0.0))

    async def work(finish: float) -> None:
        await slots.take(Stamp(finish, 0.0))
        order.append(finish)
        slots.give_back()

    waiting = [asyncio.create_task(work(finish)) for finish in (3.0, 1.0, 2.0)]
    await asyncio.sleep(0)
    slots.give_back()
    await asyncio.gather(*waiting)
    assert order == [1.0, 2.0, 3.0]
