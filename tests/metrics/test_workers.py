"""Whichever process of a server is asked, it tells of all of them; what was counted stays counted."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from metrics.scraping import TIMEOUT_S, Scrape, scraped
from server.fleet import Fleet, fleet, until

from nomemory.v1 import query_service_pb2 as q
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from talk import address_in

OK = {"method": "ListMessages", "via": "grpc", "code": "OK"}
COUNT = "nomemory_call_duration_seconds_count"


@dataclass(frozen=True)
class Observed:
    """A server of two processes, and where it serves HTTP and metrics."""

    fleet: Fleet
    http: str
    metrics: str

    def clients(self, stack: ExitStack) -> dict[int, httpx.Client]:
        """Open connections until each process has one; return them by the numbers of the processes."""
        found: dict[int, httpx.Client] = {}
        for attempt in range(100):
            client = stack.enter_context(httpx.Client(base_url=self.http, timeout=TIMEOUT_S))
            client.get("/nothing", headers={"x-request-id": f"probe-{attempt}"})
            worker = next(line["worker"] for line in self.fleet.lines() if line.get("request_id") == f"probe-{attempt}")
            found.setdefault(int(worker), client)
            if len(found) == self.fleet.workers:
                return found
        raise AssertionError("no connection reached all processes")


@pytest.fixture
def observed(tmp_path: Path) -> Iterator[Observed]:
    anywhere = "127.0.0.1:0"
    with fleet(
        tmp_path / "data",
        2,
        NOMEMORY_HTTP=anywhere,
        NOMEMORY_METRICS=anywhere,
        NOMEMORY_METRICS_COLLECT_S="20",
    ) as running:
        assert running.process.stdout
        http, metrics = (address_in(running.process.stdout.readline()) for _ in range(2))
        yield Observed(running, http, metrics.removesuffix("/metrics"))


def listed(observed: Observed, worker: int, times: int) -> None:
    """Call one process."""
    query = QueryServiceStub(observed.fleet.channels()[worker])
    for _ in range(times):
        query.ListMessages(q.ListMessagesRequest(user_id="u"), timeout=30)


def test_every_process_tells_of_all_and_no_count_goes_down(observed: Observed) -> None:
    listed(observed, 0, 5)
    listed(observed, 1, 7)
    with ExitStack() as stack:
        clients = observed.clients(stack)
        told = {worker: scraped("", client) for worker, client in clients.items()}
        told[-1] = scraped(observed.metrics)
    counts = {scrape.value(COUNT, **OK) for scrape in told.values()}
    assert len(counts) == 1
    assert counts.pop() >= 12
    for scrape in told.values():
        assert scrape.value("nomemory_reads_running", process="reader-1") == 0
        assert scrape.value("nomemory_process_memory_bytes", process="reader-1", role="reader") > 1_000_000
        assert scrape.value("nomemory_processes_unheard") == 0

    before = scraped(observed.metrics)
    (reader,) = observed.fleet.readers()
    os.kill(reader, signal.SIGKILL)
    assert until(lambda: _restarts(scraped(observed.metrics)) == 1)
    while_away = scraped(observed.metrics)
    _has_grown(before, while_away)
    assert until(lambda: ("nomemory_reads_running", (("process", "reader-1"),)) in scraped(observed.metrics).samples)
    again = scraped(observed.metrics)
    _has_grown(while_away, again)
    listed(observed, 1, 3)
    after = scraped(observed.metrics)
    _has_grown(again, after)
    assert after.value(COUNT, **OK) - again.value(COUNT, **OK) >= 3


def _restarts(scrape: Scrape) -> float:
    return scrape.value("nomemory_process_restarts_total", process="reader-1", role="reader")


def _has_grown(before: Scrape, after: Scrape) -> None:
    after_counts = after.counts()
    assert {key for key, value in before.counts().items() if after_counts.get(key, -1.0) < value} == set()
