"""The exporter in a process of its own: what it encodes would hold this one's interpreter lock, and calls would wait.

It is also the only process that loads what OpenTelemetry needs.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from nomemory.server.processes.launch import Launch
from nomemory.server.processes.watch import Vigil
from nomemory.server.processes.worker import Worker
from nomemory.server.processes.worker_errors import WorkerError
from nomemory.server.tracing.collector import Collector
from nomemory.server.tracing.span_export import Delivery

_MODULE: Final = "nomemory.server.tracing.exporter_worker"
_PART: Final = "span-exporter"
_SILENT_S: Final = 60.0
"""How long it may say nothing while batches wait: those of all processes go one after another."""


class ExporterProcess:
    """Sends batches of spans.

    Args:
        collector: where they go.
        vigil: how the process is watched.
    """

    def __init__(self, collector: Collector, vigil: Vigil) -> None:
        self._collector = collector
        self._worker = Worker(Launch(_MODULE), _SILENT_S, _PART, vigil)

    async def start(self) -> None:
        """Start the process ahead of the first batch; if it cannot be, that is tried again then."""
        with suppress(WorkerError):
            await self._worker.start()

    async def deliver(self, batch: bytes, spans: int) -> Delivery:
        """Send a batch; returns when the collector has it, or will not have it."""
        try:
            refused, cause = await self._worker.call((self._collector, batch))
        except WorkerError as error:
            return Delivery(spans, type(error).__name__)
        return Delivery(refused, cause)

    async def close(self) -> None:
        """End the process."""
        await self._worker.close()
