"""Fixtures with a collector and servers that export spans to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from server.fleet import Fleet, fleet

from nomemory.server.runtime.settings import Settings

if TYPE_CHECKING:
    from tracing.collector import Collector

# The collector is imported where it is used: without the extra that skips modules of tests, and says why.


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A separate collector."""
    from tracing.collector import collecting  # noqa: PLC0415 - see above

    with collecting() as running:
        yield running


@pytest.fixture
def traced_settings(own_settings: Settings, collector: Collector) -> Settings:
    """Settings of a small server that records every trace and exports spans quickly."""
    return own_settings.copy_with_changes(
        otlp_endpoint=collector.target, trace_sample_ratio=1.0, trace_export_interval_s=0.05
    )


@pytest.fixture(scope="module")
def shared_collector() -> Iterator[Collector]:
    """A collector for all tests of a module."""
    from tracing.collector import collecting  # noqa: PLC0415 - see above

    with collecting() as running:
        yield running


@pytest.fixture(scope="module")
def traced_server(shared_collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A server in a separate process that records only traces of callers."""
    data = tmp_path_factory.mktemp("traced") / "data"
    with fleet(
        data,
        NOMEMORY_OTLP_ENDPOINT=shared_collector.target,
        NOMEMORY_TRACE_SAMPLE_RATIO="0",
        NOMEMORY_TRACE_EXPORT_INTERVAL_S="0.05",
    ) as running:
        yield running
