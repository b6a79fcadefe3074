"""What the scheduler lets in, what it refuses, and what becomes of work whose caller has gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

import pytest

from nomemory.server.admission.fair_slots import waiting_elsewhere
from nomemory.server.admission.scheduler import Claim, Pace, Paced, ReadScheduler, cost_of
from nomemory.server.faults import Fault, Reason
from nomemory.server.settings import Settings
from nomemory.v1 import message_pb2
from nomemory.v1.query_service_pb2 import ListMessagesRequest

LOUD, QUIET = Claim("loud", "key", 10.0), Claim("quiet", "key", 10.0)
SHORT = Claim("loud", "key", 0.0)


def scheduler(**settings: float) -> ReadScheduler:
    given = {"reads_running_max": 1, "reads_refusal_s": 0.0} | settings
    return ReadScheduler(Settings.from_environment(**given))


class Read:
    """A read that works until it is let go."""

    def __init__(self) -> None:
        self.began, self.end = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> str:
        self.began.set()
        await self.end.wait()
        return "answer"


async def answer() -> str:
    return "answer"


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_what_one_user_has_in_hand_is_bounded_and_another_is_let_in() -> None:
    reads, read = scheduler(reads_user_max=2), Read()
    running = [asyncio.create_task(reads.run(LOUD, read)) for _ in range(2)]
    await settle()
    with pytest.raises(Fault) as refused:
        await reads.run(LOUD, read)
    assert refused.value.reason == Reason.ERROR_REASON_OVERLOADED
    assert refused.value.retry_after_s
    running.append(asyncio.create_task(reads.run(QUIET, answer)))
    await settle()
    load = reads.load()
    assert (load.running, load.waiting, load.users, load.refused) == (1, 2, 2, 1)
    read.end.set()
    assert await asyncio.gather(*running) == ["answer"] * 3
    assert reads.load().running == reads.load().users == 0


@pytest.mark.parametrize(("caller_max", "total_max"), [(1, 9), (9, 1)])
async def test_what_a_caller_and_all_together_have_in_hand_is_bounded(caller_max: int, total_max: int) -> None:
    reads, read = scheduler(reads_caller_max=caller_max, reads_total_max=total_max), Read()
    running = asyncio.create_task(reads.run(LOUD, read))
    await settle()
    with pytest.raises(Fault, match="too many reads"):
        await reads.run(QUIET, read)
    read.end.set()
    await running


async def test_a_short_read_waits_for_nobody() -> None:
    reads, read = scheduler(reads_user_max=1), Read()
    running = asyncio.create_task(reads.run(LOUD, read))
    await read.began.wait()
    assert await reads.run(SHORT, answer) == "answer"
    read.end.set()
    await running


async def test_who_gives_up_leaves_the_queue_at_once_and_never_begins() -> None:
    reads, read, late = scheduler(), Read(), Read()
    running = asyncio.create_task(reads.run(LOUD, read))
    await read.began.wait()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await reads.run(LOUD, late)
    assert (reads.load().waiting, reads.load().users) == (0, 1)
    read.end.set()
    await running
    assert not late.began.is_set()


async def test_a_quiet_user_goes_before_what_is_left_of_a_flood() -> None:
    reads, first, order = scheduler(), Read(), list[str]()

    async def noted(user: str) -> str:
        order.append(user)
        return user

    running = [asyncio.create_task(reads.run(LOUD, first))]
    await first.began.wait()
    running += [asyncio.create_task(reads.run(LOUD, lambda: noted("loud"))) for _ in range(20)]
    await settle()
    running.append(asyncio.create_task(reads.run(QUIET, lambda: noted("quiet"))))
    await settle()
    first.end.set()
    await asyncio.gather(*running)
    assert order.index("quiet") <= 1


async def test_while_a_read_waits_for_a_worker_another_one_runs() -> None:
    reads, elsewhere = scheduler(), Read()

    async def searching() -> str:
        async with waiting_elsewhere():
            return await elsewhere()

    waiting = asyncio.create_task(reads.run(LOUD, searching))
    await elsewhere.began.wait()
    assert await asyncio.wait_for(reads.run(QUIET, answer), 5) == "answer"
    elsewhere.end.set()
    assert await waiting == "answer"
    assert await asyncio.wait_for(reads.run(QUIET, answer), 5) == "answer", "the slot was given back once"


async def test_tasks_of_one_read_that_wait_elsewhere_hold_one_slot_between_them() -> None:
    reads, parts = scheduler(), [Read() for _ in range(3)]

    async def part(read: Read) -> None:
        async with waiting_elsewhere():
            await read()
        await asyncio.sleep(0)

    async def searching() -> str:
        await asyncio.gather(*map(part, parts))
        return "answer"

    waiting = asyncio.create_task(reads.run(LOUD, searching))
    for one in parts:
        await one.began.wait()
    for one in parts:
        one.end.set()
        await settle()
    assert await waiting == "answer"
    again = Read()
    running = [asyncio.create_task(reads.run(claim, again)) for claim in (LOUD, QUIET)]
    await settle()
    assert reads.load().waiting == 1, "there is still one slot, not two"
    again.end.set()
    await asyncio.gather(*running)


async def test_a_stream_leaves_its_slot_to_others_while_its_client_reads() -> None:
    reads = scheduler()

    async def replies() -> AsyncGenerator[int, None]:
        for number in range(3):
            yield number

    stream = reads.each(LOUD, replies())
    taken = [(reply, await asyncio.wait_for(reads.run(QUIET, answer), 5)) async for reply in stream]
    assert taken == [(number, "answer") for number in range(3)]
    assert reads.load().running == 0


async def test_a_paced_read_answers_fails_and_is_cancelled_as_it_would_be_alone() -> None:
    pace = Pace(0.001, 0.0)
    pace.is_crowded = True

    async def pieces(ending: Callable[[], object]) -> object:
        for _ in range(5):
            pace.note_work(0.01)
            await asyncio.sleep(0)
        return ending()

    assert await Paced(pieces(lambda: "answer"), pace) == "answer"
    with pytest.raises(ZeroDivisionError):
        await Paced(pieces(lambda: 1 // 0), pace)
    cleaned_up = []

    async def endless() -> None:
        try:
            while True:  # noqa: ASYNC110 - a read that lets others have their turn, for ever
                await asyncio.sleep(0)
        finally:
            cleaned_up.append(True)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await Paced(endless(), pace)
    assert cleaned_up


async def test_dear_work_rests_while_calls_keep_coming_and_no_longer() -> None:
    pace = Pace(rest_s=0.0, rest_max_s=60.0)
    pace.is_crowded = True
    pace.note_arrival()
    resting = asyncio.create_task(pace.rest())
    for _ in range(50):
        await asyncio.sleep(0)
        pace.note_arrival()
    assert not resting.done()
    await asyncio.wait_for(resting, 5)


async def test_dear_work_goes_on_however_many_calls_come() -> None:
    pace = Pace(rest_s=0.0, rest_max_s=0.01)
    pace.is_crowded = True
    resting = asyncio.create_task(pace.rest())
    async with asyncio.timeout(5):
        while not resting.done():
            pace.note_arrival()
            await asyncio.sleep(0)


def test_a_list_costs_what_it_may_have_to_look_at() -> None:
    def cost(**narrowed: object) -> float:
        request = ListMessagesRequest(user_id="u", filter=message_pb2.Filter(**narrowed))  # type: ignore[arg-type]
        return cost_of("ListMessages", request, Settings.from_environment())

    assert cost() == cost(conversation_id="c") == 0.0
    assert cost(role=message_pb2.ROLE_TOOL) > 0.0
    assert cost(metadata={"a": "1"}) > 0.0
