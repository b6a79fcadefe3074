"""Sends the spans of one process, batch by batch, beside its calls.

The spans of one process that wait to be sent.
"""

from __future__ import annotations

import asyncio
import os
import pickle
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NamedTuple

from nomemory.server.metrics import catalog
from nomemory.server.metrics.samples import Samples
from nomemory.server.structured_logs import get_logger
from nomemory.spans.span import FinishedSpan

QUEUE_FULL: Final = "queue_full"
NOT_DELIVERED: Final = "not_delivered"


class SpanQueue:
    """Implements `Recorder`. Belongs to the event loop: to record is to add to a list.

    Args:
        process: what the process is called in spans and metrics.
        most: how many spans may wait; further ones are dropped, and counted.
        batch_max: how many are sent at once.
        shows_content: whether attributes may hold content.

    Attributes:
        is_worth_sending: set when there is a whole batch.
    """

    def __init__(self, process: str, most: int, batch_max: int, *, shows_content: bool) -> None:
        self.shows_content = shows_content
        self.is_worth_sending = asyncio.Event()
        self._process = process
        self._most = most
        self._batch_max = batch_max
        self._waiting: list[FinishedSpan] = []
        self._sent = 0
        self._dropped: Counter[str] = Counter()

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def record(self, finished: FinishedSpan) -> None:
        """Take a span."""
        if len(self._waiting) >= self._most:
            self._dropped[QUEUE_FULL] += 1
            return
        self._waiting.append(finished)
        if len(self._waiting) == self._batch_max:
            self.is_worth_sending.set()

    def take(self) -> tuple[bytes, int]:
        """Remove the oldest batch; return it as bytes, and how many spans it has."""
        batch, self._waiting = self._waiting[: self._batch_max], self._waiting[self._batch_max :]
        self.is_worth_sending.clear()
        packed = pickle.dumps((self._process, os.getpid(), [tuple(one) for one in batch]), pickle.HIGHEST_PROTOCOL)
        return packed, len(batch)

    def note(self, spans: int, refused: int) -> None:
        """Count a batch that is gone, and how many of its spans were not taken."""
        self._sent += spans - refused
        self._dropped[NOT_DELIVERED] += refused

    def tell(self, samples: Samples) -> None:
        """Add what was counted."""
        samples.put(catalog.SPANS_SENT, self._sent)
        for reason in (QUEUE_FULL, NOT_DELIVERED):
            samples.put(catalog.SPANS_DROPPED, self._dropped[reason], reason)


_log = get_logger("tracing")


class Delivery(NamedTuple):
    """What became of a batch: how many spans were not taken, and why; empty: there was nothing to complain of."""

    refused: int
    cause: str = ""


Deliver = Callable[[bytes, int], Awaitable[Delivery]]
"""Hands over a batch of so many spans. It fails by saying so."""


class SpanExport:
    """Sends one batch at a time: while the collector is slow the queue fills up, and drops what it has no room for.

    Args:
        queue: what waits.
        deliver: hands a batch over.
        flush_s: how long a span waits for others.
    """

    def __init__(self, queue: SpanQueue, deliver: Deliver, flush_s: float) -> None:
        self._queue = queue
        self._deliver = deliver
        self._flush_s = flush_s
        self._cause = ""
        self._ends = asyncio.Event()

    async def run(self) -> None:
        """Send until `stop`, and then what is left."""
        while not self._ends.is_set() or len(self._queue):
            await self._wait()
            if len(self._queue):
                await self._send()

    def stop(self) -> None:
        """Have `run` end soon."""
        self._ends.set()
        self._queue.is_worth_sending.set()

    async def _wait(self) -> None:
        if self._ends.is_set():
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._flush_s):
                await self._queue.is_worth_sending.wait()

    async def _send(self) -> None:
        batch, spans = self._queue.take()
        delivery = await self._deliver(batch, spans)
        self._queue.note(spans, delivery.refused)
        if delivery.cause and not self._cause:
            _log.warning("spans are not delivered", cause=delivery.cause)
        elif self._cause and not delivery.cause:
            _log.info("spans are delivered again")
        self._cause = delivery.cause
