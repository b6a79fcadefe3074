"""Whether a Qdrant server is there, also while nobody needs it, and whether another log fills its collection."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from nomemory.server.cannot_start import CannotStartError
from nomemory.server.faults import Fault, Reason
from nomemory.server.standing_faults import QDRANT, UNREACHABLE, StandingFaults
from nomemory.server.vector.protocol import VectorIndex

_SAID: Final = """\
the collection {collection} on the Qdrant server is filled from another message log. Give this server a Qdrant of its \
own (NOMEMORY_QDRANT_URL), or delete the collection there if nothing uses it any more"""


class ForeignCollectionError(Fault, CannotStartError):
    """Nothing was read from it, or written to it. A server that finds it when it starts does not start.

    Args:
        collection: its name.
    """

    def __init__(self, collection: str) -> None:
        super().__init__(Reason.ERROR_REASON_INDEX_UNAVAILABLE, _SAID.format(collection=collection))


@dataclass
class Reachability:
    """Asks the engine now and then whether it is there.

    Attributes:
        index: whose engine.
        probe_s: how often.
        faults: where it is noted that it is away.
    """

    index: VectorIndex
    probe_s: float
    faults: StandingFaults
    _is_away: bool = field(default=False, init=False)

    async def run(self) -> None:
        """Probe until it is cancelled. An index whose engine is back is looked into: it may have lost something."""
        while True:
            try:
                await self.index.probe()
            except Fault as fault:
                self._is_away = True
                said = (
                    fault.message if isinstance(fault, ForeignCollectionError) else "the Qdrant server does not answer"
                )
                self.faults.stand(QDRANT, UNREACHABLE, said)
            else:
                if self._is_away:
                    self._is_away = False
                    self.faults.clear(QDRANT)
                    self.index.suspect.set()
            await asyncio.sleep(self.probe_s)
