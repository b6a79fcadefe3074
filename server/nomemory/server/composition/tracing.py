"""Starts what records spans and what sends them."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Final

from nomemory.server.metrics.meters import Meters
from nomemory.server.processes.watch import Patience, Vigil
from nomemory.server.settings import Settings
from nomemory.server.standing_faults import StandingFaults
from nomemory.server.tracing.exporter_process import ExporterProcess
from nomemory.server.tracing.factory import collector_of
from nomemory.server.tracing.span_export import Deliver, SpanExport
from nomemory.server.tracing.span_queue import SpanQueue
from nomemory.spans.tracer import Sampling, Tracer

_LAST_S: Final = 3.0
"""How long a process that ends may take to send what is left."""


def start_exporter(settings: Settings, faults: StandingFaults, meters: Meters, stack: AsyncExitStack) -> Deliver | None:
    """Make what sends spans to the collector; the stack ends it. None: there are no traces.

    Raises:
        TracingSettingsError: the settings do not describe a collector.
        OSError: the file of certificates cannot be read.
    """
    collector = collector_of(settings)
    if collector is None:
        return None
    exporter = ExporterProcess(collector, Vigil(Patience.of(settings), faults, meters.roster))
    stack.push_async_callback(exporter.close)
    starting = asyncio.create_task(exporter.start(), name="span-exporter")
    stack.push_async_callback(asyncio.wait, [starting])
    stack.callback(starting.cancel)
    return exporter.deliver


def start_tracer(settings: Settings, deliver: Deliver | None, meters: Meters, stack: AsyncExitStack) -> Tracer | None:
    """Make what begins the spans of this process, and send them from now on; the stack sends the last ones."""
    if deliver is None:
        return None
    most, batch_max = settings.tracing.queue_max, settings.tracing.batch_max
    queue = SpanQueue(meters.process, most, batch_max, shows_content=settings.tracing.content)
    meters.also(queue.tell)
    export = SpanExport(queue, deliver, settings.tracing.flush_s)
    task = asyncio.create_task(export.run(), name="span-export")
    stack.push_async_callback(_end, export, task)
    return Tracer(Sampling(settings.tracing.ratio, settings.tracing.callers_decide), queue)


async def _end(export: SpanExport, task: asyncio.Task[None]) -> None:
    export.stop()
    await asyncio.wait([task], timeout=_LAST_S)
    task.cancel()
