"""The metrics exporter interface."""

from __future__ import annotations

from typing import Protocol


class MetricsExporter(Protocol):
    """Exports the metrics of a server for Prometheus."""

    async def text(self) -> bytes:
        """Return the current metrics in the Prometheus text format."""
