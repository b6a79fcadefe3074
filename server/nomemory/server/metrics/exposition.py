"""The protocol of what answers a scrape."""

from __future__ import annotations

from typing import Protocol


class Exposition(Protocol):
    """Tells of all processes of a server, whichever of them is asked."""

    async def text(self) -> bytes:
        """Return the figures of now, as Prometheus reads them.

        Raises:
            Fault: STORAGE_UNAVAILABLE, the process that knows them is gone.
        """
