"""Whether a Qdrant server is there, also while nobody needs it, and whether another log fills its collection."""

from __future__ import annotations

import asyncio
from contextlib import suppress
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


class Reachability:
    """Asks the engine now and then whether it is there.

    Args:
        index: whose engine.
        probe_s: how often.
        faults: where it is noted that it is away.
    """

    def __init__(self, index: VectorIndex, probe_s: float, faults: StandingFaults) -> None:
        self._index = index
        self._probe_s = probe_s
        self._faults = faults
        self._stopping = asyncio.Event()
        self._is_away = False

    def stop(self) -> None:
        """End `run`."""
        self._stopping.set()

    async def run(self) -> None:
        """Probe until `stop`."""
        while not self._stopping.is_set():
            try:
                await self._index.probe()
            except ForeignCollectionError as error:
                self._is_away = True
                self._faults.stand(QDRANT, UNREACHABLE, error.message)
            except Fault:
                self._is_away = True
                self._faults.stand(QDRANT, UNREACHABLE, "the Qdrant server does not answer")
            else:
                self._note_answer()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._probe_s):
                    await self._stopping.wait()

    def _note_answer(self) -> None:
        """Have the index looked into when its engine is back: it may have lost something."""
        if self._is_away:
            self._is_away = False
            self._faults.clear(QDRANT)
            self._index.suspect.set()
