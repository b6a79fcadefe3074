"""Who keeps claims agrees with its desk about what it fills, whatever comes between, and tells what is owed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

from nomemory.server.faults import Fault, Reason
from nomemory.server.log.position import FeedPosition
from nomemory.server.vector.bucket_claims import Claim, Held, Progress, SetAside
from nomemory.server.vector.bucket_keeper import BucketKeeper

PARKED = frozenset({SetAside(0, "ann", "m", 7, "REFUSED")})


class Claims:
    """Books in memory, which fail when they are told to."""

    lease_s = 0.4

    def __init__(self) -> None:
        self.held: dict[int, int] = {}
        self.share = 4
        self.published: list[Progress] = []
        self.failures = 0

    async def begin(self, log: str, seed: FeedPosition | None, empty: Callable[[], Awaitable[None]]) -> None:
        """Begin."""

    async def renew(self) -> Held:
        return Held(dict(self.held), self.share)

    async def claim(self, most: int) -> list[Claim]:
        free = [bucket for bucket in range(4) if bucket not in self.held][:most]
        self.held |= dict.fromkeys(free, 1)
        return [Claim(bucket, 1, 0, was_abandoned=False) for bucket in free]

    async def aside(self, buckets: Collection[int]) -> list[SetAside]:
        return [one for one in PARKED if one.bucket in buckets]

    async def publish(self, _generations: dict[int, int], progress: Progress) -> None:
        if self.failures:
            self.failures -= 1
            raise Fault(Reason.ERROR_REASON_STORAGE_UNAVAILABLE, "the connection broke")
        self.published.append(progress)

    async def release(self, buckets: Collection[int]) -> None:
        self.held = {bucket: one for bucket, one in self.held.items() if bucket not in buckets}

    async def start_over(self) -> None:
        """Do nothing."""

    async def checkpoints(self) -> FeedPosition:
        return FeedPosition()

    async def queried(self, note: Callable[[str], None]) -> None:
        """Do nothing."""

    async def leave(self) -> None:
        self.held = {}


class DeskOfBuckets:
    """Follows buckets, and tells once that nothing is set aside any more, as the desk does."""

    log_name = "log"

    def __init__(self) -> None:
        self.held = set[int]()
        self.told = [Progress()]

    def followed(self) -> None:
        """Say that nothing was filled."""

    def start_over(self) -> None:
        """Do nothing."""

    def has_points(self) -> bool:
        return False

    def hold(self, checkpoints: Mapping[int, int], _aside: Iterable[SetAside]) -> None:
        self.held |= checkpoints.keys()

    def let_go(self, buckets: Collection[int]) -> None:
        self.held -= set(buckets)

    def progress(self, _hot: object) -> Progress:
        return self.told.pop(0) if len(self.told) > 1 else self.told[0]


class Kept:
    """A keeper, its books and its desk, which is slow to do what it is told to be slow with."""

    def __init__(self) -> None:
        self.claims, self.desk = Claims(), DeskOfBuckets()
        self.slow_with: set[str] = set()
        index = cast("Any", type("Index", (), {"suspect": asyncio.Event(), "give_up": None}))
        self.keeper = BucketKeeper(
            self.claims,
            cast("Any", self.desk),
            cast("Any", self.at_desk),
            index,
            lambda: (),
            lambda _user: None,
            lambda: None,
            asyncio.Lock(),
        )

    async def at_desk(self, job: Callable[[], object]) -> object:
        name = getattr(job, "func", job).__name__
        if name in self.slow_with:
            self.slow_with.discard(name)
            await asyncio.sleep(self.claims.lease_s / 2)  # longer than a batch may take, where buckets are handed over
        return job()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110 - a state of several parts
                await asyncio.sleep(0.005)


@asynccontextmanager
async def kept() -> AsyncIterator[Kept]:
    one = Kept()
    running = asyncio.create_task(one.keeper.run())
    try:
        await one.until(lambda: len(one.desk.held) == one.claims.share)
        yield one
    finally:
        one.keeper.stop()
        await running


async def test_buckets_that_are_handed_over_are_let_go_however_long_the_desk_takes() -> None:
    async with kept() as one:
        one.slow_with.add("let_go")
        one.claims.share = 2
        await one.until(lambda: len(one.claims.held) == 2)
        await one.until(lambda: not one.slow_with)
        await one.until(lambda: one.desk.held == one.claims.held.keys())
        await asyncio.sleep(one.claims.lease_s)
        assert one.desk.held == one.claims.held.keys(), "two servers would fill the same bucket"


async def test_that_nothing_is_set_aside_any_more_is_told_until_it_is_heard() -> None:
    async with kept() as one:
        one.desk.told += [Progress(aside=PARKED), Progress(aside=frozenset()), Progress()]
        one.keeper.note_progress()
        await one.until(lambda: Progress(aside=PARKED) in one.claims.published)
        one.claims.failures = 1
        one.keeper.note_progress()
        await one.until(lambda: not one.claims.failures)
        one.keeper.note_progress()
        await one.until(lambda: Progress(aside=frozenset()) in one.claims.published)


async def test_how_far_a_bucket_is_is_told_again_after_it_was_lost_and_claimed_anew() -> None:
    async with kept() as one:
        one.desk.told = [Progress(FeedPosition.at(7))]
        one.keeper.note_progress()
        await one.until(lambda: one.claims.published[-1:] == [Progress(FeedPosition.at(7))])
        one.claims.published.clear()
        one.claims.held = {}
        await one.until(lambda: len(one.claims.held) == 4 and bool(one.claims.published))
        assert one.claims.published[-1] == Progress(FeedPosition.at(7))
