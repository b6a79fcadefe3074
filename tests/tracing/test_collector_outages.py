"""Tests that collector outages neither delay nor fail calls."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from tracing.collector import Collector

from nomemory.server.runtime.settings import Settings
from nomemory.v1 import query_service_pb2 as q

if TYPE_CHECKING:
    from running_server import Server

PROMPT_S = 5.0
"""Less than a collector may take for a batch (10 s here), and long for a call on a slow machine."""
ENDS_S = 20.0
"""Much longer than a server may take to send its last spans, and much shorter than all batches would take."""
Start = Callable[[Settings], AbstractContextManager["Server"]]


def listed(server: Server, times: int) -> None:
    """Call, and expect a fast response."""
    for _ in range(times):
        server.query.ListMessages(q.ListMessagesRequest(user_id="lin"), timeout=PROMPT_S)


def test_unreachable_collector_does_not_affect_calls(start: Start, own_settings: Settings) -> None:
    with find_unused_port() as nobody:
        away = own_settings.copy_with_changes(otlp_endpoint=f"http://127.0.0.1:{nobody}", trace_sample_ratio=1.0)
        with start(away.copy_with_changes(trace_export_timeout_s=0.2, trace_export_interval_s=0.05)) as server:
            listed(server, 20)


def test_hanging_collector_loses_spans_and_delays_no_call(
    start: Start, traced_settings: Settings, collector: Collector
) -> None:
    collector.held.clear()
    small = traced_settings.copy_with_changes(
        trace_export_timeout_s=10.0, trace_max_queue_size=8, trace_max_batch_size=8
    )
    with start(small) as server:
        listed(server, 50)
        collector.held.set()
        collector.wait(lambda spans: len(spans) >= 8)


def test_hanging_collector_does_not_delay_the_shutdown(
    start: Start, traced_settings: Settings, collector: Collector
) -> None:
    collector.held.clear()
    with start(traced_settings.copy_with_changes(trace_export_timeout_s=60.0, trace_max_batch_size=4)) as server:
        listed(server, 20)
        began = time.monotonic()
    assert time.monotonic() - began < ENDS_S


def test_span_export_continues_after_a_rejected_batch(
    start: Start, traced_settings: Settings, collector: Collector
) -> None:
    collector.refuse = True
    with start(traced_settings) as server:
        listed(server, 1)
        collector.wait(lambda _spans: bool(collector.metadata))
        collector.refuse = False
        listed(server, 1)
        collector.wait(lambda spans: len(spans) >= 2)


def test_remaining_spans_are_exported_at_shutdown(
    start: Start, traced_settings: Settings, collector: Collector
) -> None:
    with start(traced_settings.copy_with_changes(trace_export_interval_s=60.0, trace_max_batch_size=4)) as server:
        listed(server, 2)
        collector.wait(lambda spans: len(spans) == 4)
        listed(server, 1)
        assert len(collector.spans) == 4
    assert len(collector.spans) == 6


def test_collector_credentials_are_sent(start: Start, traced_settings: Settings, collector: Collector) -> None:
    with start(traced_settings.copy_with_changes(otlp_headers="x-team=memory, Authorization=Bearer abc=")) as server:
        listed(server, 1)
        collector.wait(lambda spans: len(spans) == 2)
    assert collector.metadata[0]["x-team"] == "memory"
    assert collector.metadata[0]["authorization"] == "Bearer abc="


@contextmanager
def find_unused_port() -> Iterator[int]:
    """Return an unused port."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
