"""The protocol of what answers a scrape."""

from __future__ import annotations

from typing import Protocol


class MetricsExporter(Protocol):
    """Exports the metrics of a server."""

    async def text(self) -> bytes:
        """Return the metrics of now in the text format of Prometheus."""
