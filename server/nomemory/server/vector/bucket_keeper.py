"""Claims buckets of an index that several servers share, and publishes how far they are filled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from nomemory.server.faults import Fault
from nomemory.server.structured_logs import get_logger
from nomemory.server.vector.bucket_claims import BucketClaims, Held, Progress, SetAside, surplus
from nomemory.server.vector.comparison import AtDesk
from nomemory.server.vector.indexing_store import Desk
from nomemory.server.vector.protocol import VectorIndex

_log = get_logger("vectors")

_RENEWALS: Final = 3
"""How often a claim is renewed within its time."""
_MARGIN: Final = 0.25
"""The part of a claim's time before whose end nothing new is begun in it: clocks differ, and calls take time."""
_PUBLISH_S: Final = 0.02
"""How long progress waits for more of it."""
_RETRY_S: Final = 0.5


class BucketKeeper:
    """Keeps a server's claims, while its indexer works.

    Args:
        claims: the books.
        desk: the log and the backlog.
        at_desk: runs what concerns the desk, in its thread.
        index: the index.
        hot_users: names the users who are being queried.
        note_query: is given users whom another server is queried about.
        work_came: called when there may be work.
        writing: held while the index is written to: what is given up in good order is not written to any more.
    """

    def __init__(
        self,
        claims: BucketClaims,
        desk: Desk,
        at_desk: AtDesk,
        index: VectorIndex,
        hot_users: Callable[[], Sequence[str]],
        note_query: Callable[[str], None],
        work_came: Callable[[], None],
        writing: asyncio.Lock,
    ) -> None:
        self._writing = writing
        self._claims = claims
        self._desk = desk
        self._at_desk = at_desk
        self._index = index
        self._hot_users = hot_users
        self._note_query = note_query
        self._work_came = work_came
        self._generations: dict[int, int] = {}
        self._published = Progress()
        self._aside_owed: frozenset[SetAside] | None = None
        self._is_begun = False
        self._safe_until = 0.0
        self._progressed, self._stopping = asyncio.Event(), asyncio.Event()

    @property
    def may_write(self) -> bool:
        """Whether this server's claims last for a while yet, so that it may write to the index."""
        return time.monotonic() < self._safe_until

    def note_progress(self) -> None:
        """Have it published soon how far the buckets are."""
        self._progressed.set()

    def stop(self) -> None:
        """Have `run` end, when it has published the rest and given up its buckets."""
        self._stopping.set()
        self._progressed.set()

    async def run(self) -> None:
        """Work until `stop`. While the books cannot be reached nothing is filled, and it is tried again."""
        try:
            while not self._stopping.is_set():
                due_at = time.monotonic() + self._claims.lease_s / _RENEWALS
                try:
                    await self._keep_claims()
                    await self._publish_until(due_at)
                except Fault as fault:
                    _log.debug("the books of the vector index cannot be kept", cause=fault.message)
                    await _wait(self._stopping, _RETRY_S)
            with suppress(Fault):
                await self._publish()
        finally:
            self._safe_until = 0.0
            await self._claims.leave()

    async def _keep_claims(self) -> None:
        if not self._is_begun:
            await self._begin()
        began_at = time.monotonic()
        held = await self._claims.renew()
        ours, theirs = self._generations.items(), held.generations.items()
        await self._give_up({bucket for bucket, _ in ours - theirs})
        if unknown := {bucket for bucket, _ in theirs - ours}:  # claimed, but the answer was lost
            await self._claims.release(unknown)
        elif beyond := surplus(held):
            await self._hand_over(beyond)
        elif len(held.generations) < held.share:
            await self._claim(held)
        self._safe_until = began_at + self._claims.lease_s * (1 - _MARGIN)
        await self._claims.queried(self._note_query)

    async def _hand_over(self, buckets: Sequence[int]) -> None:
        """Give up buckets between two batches; if one takes long, the next time."""
        try:
            async with asyncio.timeout(self._claims.lease_s * _MARGIN):  # what follows is not broken off half-way
                await self._writing.acquire()
        except TimeoutError:
            return
        try:
            await self._publish()
            await self._give_up(buckets)
            await self._claims.release(buckets)
        finally:
            self._writing.release()

    async def _begin(self) -> None:
        """Begin the books, and again where the engine has lost everything that was put into it."""
        seed = await self._at_desk(self._desk.followed)
        await self._claims.begin(self._desk.log_name, seed, self._index.give_up)
        await self._at_desk(self._desk.start_over)
        filled = (await self._claims.checkpoints()).latest > 0
        if filled and await self._at_desk(self._desk.has_points) and not await self._index.count():
            _log.error("the vector index is gone, and is built anew")
            await self._claims.start_over()
        self._is_begun = True

    async def _claim(self, held: Held) -> None:
        claims = await self._claims.claim(held.share - len(held.generations))
        if not claims:
            return
        aside = await self._claims.aside([claim.bucket for claim in claims])
        await self._at_desk(partial(self._desk.hold, {claim.bucket: claim.checkpoint for claim in claims}, aside))
        if not self._generations or any(claim.was_abandoned for claim in claims):
            self._index.suspect.set()  # who held them may have been in the middle of something
        self._generations |= {claim.bucket: claim.generation for claim in claims}
        self._published = Progress()  # in the books the buckets are where another server left them
        _log.info("buckets of the vector index are filled here", claimed=len(claims), held=len(self._generations))
        self._work_came()

    async def _give_up(self, buckets: Collection[int]) -> None:
        if buckets:
            for bucket in buckets:
                self._generations.pop(bucket, None)
            await self._at_desk(partial(self._desk.let_go, list(buckets)))
            _log.info("buckets of the vector index are given up", given_up=len(buckets), held=len(self._generations))

    async def _publish_until(self, due_at: float) -> None:
        while (left_s := due_at - time.monotonic()) > 0 and not self._stopping.is_set():
            self._progressed.clear()
            await self._publish()
            await _wait(self._progressed, left_s)
            await _wait(self._stopping, _PUBLISH_S)

    async def _publish(self) -> None:
        progress = await self._at_desk(partial(self._desk.progress, self._hot_users()))
        if progress.aside is None:
            progress = replace(progress, aside=self._aside_owed)
        self._aside_owed = progress.aside  # the desk says it once
        if progress != self._published:
            await self._claims.publish(self._generations, progress)
            self._published = progress
        self._aside_owed = None


async def _wait(event: asyncio.Event, longest_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(longest_s):
            await event.wait()
