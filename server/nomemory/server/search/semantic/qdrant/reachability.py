"""Probe a Qdrant server periodically, and report an outage or a collection of another message log."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from nomemory.server.faults import Fault, Reason
from nomemory.server.runtime.active_faults import QDRANT, UNREACHABLE, ActiveFaults
from nomemory.server.runtime.startup_errors import StartupError
from nomemory.server.search.semantic.protocol import VectorIndex

_MESSAGE: Final = """\
the collection {collection} on the Qdrant server belongs to another message log. Set NOMEMORY_QDRANT_URL to another \
server, or delete the collection if it is not used"""


class ForeignCollectionError(Fault, StartupError):
    """A collection belongs to another message log, and the server must therefore not start."""

    def __init__(self, collection: str) -> None:
        super().__init__(Reason.ERROR_REASON_INDEX_UNAVAILABLE, _MESSAGE.format(collection=collection))


@dataclass
class ReachabilityMonitor:
    """Probes an index periodically.

    Attributes:
        probe_s: the interval between probes, in seconds.
        faults: the registry to which an outage is reported.
    """

    index: VectorIndex
    probe_s: float
    faults: ActiveFaults
    _is_unavailable: bool = field(default=False, init=False)

    async def run(self) -> None:
        """Probe the index until the task is cancelled.

        After an outage, request a reconciliation, because points may be lost.
        """
        while True:
            try:
                await self.index.probe()
            except Fault as fault:
                self._is_unavailable = True
                is_foreign = isinstance(fault, ForeignCollectionError)
                detail = fault.message if is_foreign else "the Qdrant server does not respond"
                self.faults.report(QDRANT, UNREACHABLE, detail)
            else:
                if self._is_unavailable:
                    self._is_unavailable = False
                    self.faults.clear(QDRANT)
                    self.index.reconcile_requested.set()
            await asyncio.sleep(self.probe_s)
