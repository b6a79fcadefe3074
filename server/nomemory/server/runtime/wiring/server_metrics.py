"""Collection of a server's metrics at each scrape: counters, indexes, processes and faults."""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Iterator, Mapping

from nomemory.server import __version__
from nomemory.server.api.services.index_status import IndexStatusReporter
from nomemory.server.faults import Fault
from nomemory.server.runtime.active_faults import ActiveFaults
from nomemory.server.runtime.metrics import catalog
from nomemory.server.runtime.metrics.index_lag import IndexLag
from nomemory.server.runtime.metrics.meters import Meters
from nomemory.server.runtime.metrics.samples import Samples
from nomemory.server.runtime.metrics.text import render_metrics
from nomemory.server.runtime.processes.process_stats import ProcessStats, read_process_stats
from nomemory.v1 import ingest_service_pb2 as pb

_MAIN_PROCESS = "server"


class ServerMetrics:
    """Implements `MetricsExporter`.

    Args:
        report: reports the status of the message log and the indexes; None on a recall-only server.
    """

    def __init__(self, meters: Meters, faults: ActiveFaults, report: IndexStatusReporter | None = None) -> None:
        self._meters = meters
        self._faults = faults
        self._report = report
        self._lag = IndexLag()
        self._started = time.time()
        meters.processes.record_start(_MAIN_PROCESS, os.getpid())

    async def text(self) -> bytes:
        """Return the current metrics in the Prometheus text format."""
        samples = self._meters.samples()
        await self._add_indexes(samples)
        await self._add_processes(samples)
        samples.set_value(catalog.BUILD, 1, __version__, platform.python_version())
        samples.set_value(catalog.START, round(self._started, 3))
        for fault in self._faults.list_active_faults():
            samples.set_value(catalog.FAULTS, 1, fault.component, fault.kind)
        return await asyncio.to_thread(render_metrics, samples)

    async def _add_indexes(self, samples: Samples) -> None:
        if self._report is None:
            return
        try:
            status = await self._report.read_status(None)
        except Fault:
            samples.set_value(catalog.LOG_READABLE, 0)
            return
        samples.set_value(catalog.LOG_READABLE, 1)
        samples.set_value(catalog.LOG_MESSAGES, status.log.messages)
        samples.set_value(catalog.LOG_USERS, status.log.users)
        samples.set_value(catalog.LOG_DAMAGED, status.log.damaged)
        self._lag.record_sequence(status.log.sequence)
        for name, index in _read_index_statuses(status):
            samples.set_value(catalog.INDEX_PENDING, index.pending, name)
            samples.set_value(catalog.INDEX_LAG, round(self._lag.compute_lag_s(index.checkpoint), 3), name)
            samples.set_value(catalog.INDEX_DEAD_LETTERS, index.dead_letters, name)
            samples.set_value(catalog.INDEX_FAILING, int(bool(index.error)), name)

    async def _add_processes(self, samples: Samples) -> None:
        records = self._meters.processes.records
        running = {name: record.process_id for name, record in records.items() if record.process_id is not None}
        for name, stats in (await asyncio.to_thread(_read_all_process_stats, running)).items():
            samples.set_value(catalog.PROCESS_MEMORY, stats.private_bytes, name)
            records[name].record_cpu_time(running[name], stats.cpu_s)
        for name, record in records.items():
            samples.set_value(catalog.PROCESS_CPU, round(record.cpu_s, 3), name)
            samples.set_value(catalog.PROCESS_RESTARTS, record.starts - 1, name)


def _read_index_statuses(status: pb.GetIndexStatusResponse) -> Iterator[tuple[str, pb.IndexStatus]]:
    yield "lexical", status.lexical
    yield "vector", status.vector
    if status.HasField("next_vector"):
        yield "next_vector", status.next_vector


def _read_all_process_stats(running: Mapping[str, int]) -> dict[str, ProcessStats]:
    all_stats = {name: read_process_stats(process_id) for name, process_id in running.items()}
    return {name: stats for name, stats in all_stats.items() if stats is not None}
