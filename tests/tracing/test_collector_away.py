"""No call waits for a collector, and none fails for one; what is lost is counted."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from metrics.scraping import scraped
from server.fleet import until
from tracing.collector import Collector

from nomemory.server.settings import Settings
from nomemory.v1 import query_service_pb2 as q

if TYPE_CHECKING:
    from served import Server

DROPPED, SENT = "nomemory_spans_dropped_total", "nomemory_spans_sent_total"
PROMPT_S = 5.0
"""Less than a collector may take for a batch (10 s here), and long for a call on a slow machine."""
Start = Callable[[Settings], AbstractContextManager["Server"]]


def listed(server: Server, times: int) -> None:
    """Call, and expect an answer soon."""
    for _ in range(times):
        server.query.ListMessages(q.ListMessagesRequest(user_id="lin"), timeout=PROMPT_S)


@contextmanager
def counting(start: Start, settings: Settings, **more: object) -> Iterator[Server]:
    with start(settings.with_changes(metrics="127.0.0.1:0", trace_timeout_s=10.0, **more)) as server:
        yield server


def count(server: Server, name: str, **labels: str) -> float:
    return scraped(server.metrics).value(name, **labels)


def test_a_collector_that_is_away_harms_nothing_and_is_counted(start: Start, own_settings: Settings) -> None:
    with port_of_nobody() as nobody:
        away = own_settings.with_changes(
            otlp_endpoint=f"http://127.0.0.1:{nobody}", trace_ratio=1.0, metrics="127.0.0.1:0"
        )
        with start(away.with_changes(trace_timeout_s=0.2, trace_flush_s=0.05)) as server:
            listed(server, 20)
            assert until(lambda: count(server, DROPPED, reason="not_delivered") >= 40)
            assert count(server, SENT) == 0


def test_a_collector_that_hangs_costs_spans_and_no_time(
    start: Start, traced_settings: Settings, collector: Collector
) -> None:
    collector.held.clear()
    with counting(start, traced_settings, trace_queue_max=8, trace_batch_max=8) as server:
        began = time.monotonic()
        listed(server, 50)
        assert time.monotonic() - began < 50 * PROMPT_S
        assert until(lambda: count(server, DROPPED, reason="queue_full") >= 50)
        collector.held.set()
        assert until(lambda: count(server, SENT) >= 8)


def test_a_collector_that_refuses_is_told_once(start: Start, traced_settings: Settings, collector: Collector) -> None:
    collector.refuse = True
    with counting(start, traced_settings) as server:
        listed(server, 1)
        assert until(lambda: count(server, DROPPED, reason="not_delivered") == 2)
        collector.refuse = False
        listed(server, 1)
        assert until(lambda: count(server, SENT) == 2)


def test_what_a_collector_rejects_is_counted(start: Start, traced_settings: Settings, collector: Collector) -> None:
    collector.reject = 1
    with counting(start, traced_settings) as server:
        listed(server, 1)
        assert until(lambda: count(server, DROPPED, reason="not_delivered") >= 1)
        assert count(server, SENT) >= 1 or len(collector.spans) >= 1


def test_what_is_left_is_sent_when_a_server_ends(start: Start, traced_settings: Settings, collector: Collector) -> None:
    with start(traced_settings.with_changes(trace_flush_s=60.0, trace_batch_max=4)) as server:
        listed(server, 2)
        collector.wait(lambda spans: len(spans) == 4)
        listed(server, 1)
        assert len(collector.spans) == 4
    assert len(collector.spans) == 6


def test_the_collectors_credentials_are_sent(start: Start, traced_settings: Settings, collector: Collector) -> None:
    with start(traced_settings.with_changes(otlp_headers="x-team=memory, Authorization=Bearer abc=")) as server:
        listed(server, 1)
        collector.wait(lambda spans: len(spans) == 2)
    assert collector.metadata[0]["x-team"] == "memory"
    assert collector.metadata[0]["authorization"] == "Bearer abc="


@contextmanager
def port_of_nobody() -> Iterator[int]:
    """Give a port at which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
