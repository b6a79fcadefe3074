"""The figures of a whole server, in the process that knows all of them."""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping

from nomemory.server import __version__
from nomemory.server.faults import Fault
from nomemory.server.metrics import catalog
from nomemory.server.metrics.meters import Meters, role_of
from nomemory.server.metrics.samples import Samples, Totals
from nomemory.server.metrics.text import text_of
from nomemory.server.processes.vitals import Vitals, vitals
from nomemory.server.readers.readers import Heard
from nomemory.server.rpc.index_status import Report
from nomemory.server.standing_faults import StandingFaults
from nomemory.v1 import ingest_service_pb2 as pb

AskReaders = Callable[[], Awaitable[list[Heard]]]
"""Asks the other processes that serve what they have counted."""


class ServerMetrics:
    """Implements `Exposition`.

    Args:
        meters: what counts in this process.
        faults: what stands.
        ask_readers: asks the others; None: there are none.
        report: tells how far the log and the indexes are; None where that is another server's.
    """

    def __init__(
        self,
        meters: Meters,
        faults: StandingFaults,
        ask_readers: AskReaders | None = None,
        report: Report | None = None,
    ) -> None:
        self._meters = meters
        self._faults = faults
        self._ask_readers = ask_readers
        self._report = report
        self._totals = Totals()
        self._one_at_a_time = asyncio.Lock()
        self._started = time.time()
        meters.roster.began(meters.process, os.getpid())

    async def text(self) -> bytes:
        """Return the figures of now, as Prometheus reads them."""
        samples = await self._counted()
        await self._tell_state(samples)
        await self._tell_processes(samples)
        samples.put(catalog.BUILD, 1, __version__, platform.python_version())
        samples.put(catalog.START, round(self._started, 3))
        for fault in self._faults.all():
            samples.put(catalog.FAULT, 1, fault.part, fault.kind)
        return await asyncio.to_thread(text_of, samples)

    async def _counted(self) -> Samples:
        """Return what all processes have counted."""
        async with self._one_at_a_time:  # what was asked for earlier must not be noted later
            own, heard = self._meters.process, await self._ask_readers() if self._ask_readers else []
            self._totals.note(own, os.getpid(), self._meters.samples())
            for one in heard:
                if one.samples is not None:
                    self._totals.note(one.process, one.process_id, one.samples)
            total = self._totals.sum({own, *(one.process for one in heard if one.samples is not None)})
        total.put(catalog.PROCESSES_UNHEARD, sum(one.samples is None for one in heard))
        return total

    async def _tell_state(self, samples: Samples) -> None:
        if self._report is None:
            return
        try:
            status = await self._report.status(None)
        except Fault:
            samples.put(catalog.LOG_READABLE, 0)
            return
        samples.put(catalog.LOG_READABLE, 1)
        samples.put(catalog.LOG_MESSAGES, status.log.messages)
        samples.put(catalog.LOG_USERS, status.log.users)
        samples.put(catalog.LOG_DAMAGED, status.log.damaged)
        lag = self._meters.lag
        lag.note(status.log.sequence)
        for name, index in _indexes(status):
            samples.put(catalog.INDEX_PENDING, index.pending, name)
            samples.put(catalog.INDEX_LAG, round(lag.behind_s(index.checkpoint), 3), name)
            samples.put(catalog.INDEX_PARKED, index.parked, name)
            samples.put(catalog.INDEX_FAILING, int(bool(index.fault)), name)

    async def _tell_processes(self, samples: Samples) -> None:
        entries = self._meters.roster.entries
        running = {name: entry.process_id for name, entry in entries.items() if entry.process_id is not None}
        seen = await asyncio.to_thread(_look, running)
        for name, looked in seen.items():
            samples.put(catalog.PROCESS_MEMORY, looked.private_bytes, name, role_of(name))
            entries[name].used(running[name], looked.cpu_s)
        for name, entry in entries.items():
            samples.put(catalog.PROCESS_CPU, round(entry.cpu_s, 3), name, role_of(name))
            samples.put(catalog.PROCESS_RESTARTS, entry.starts - 1, name, role_of(name))


def _indexes(status: pb.GetIndexStatusResponse) -> Iterator[tuple[str, pb.IndexStatus]]:
    yield "words", status.lexical
    yield "meaning", status.vector
    if status.HasField("coming_vector"):
        yield "meaning_coming", status.coming_vector


def _look(running: Mapping[str, int]) -> dict[str, Vitals]:
    found = {name: vitals(process_id) for name, process_id in running.items()}
    return {name: seen for name, seen in found.items() if seen is not None}
