"""Sends the spans of one process, batch by batch, beside its calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from nomemory.server.structured_logs import get_logger
from nomemory.server.tracing.span_queue import SpanQueue

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
