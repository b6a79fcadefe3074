"""The reranker in a process of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from nomemory.server.admission.ticket import waiting_elsewhere
from nomemory.server.backoff import Backoff
from nomemory.server.processes.launch import Launch
from nomemory.server.processes.watch import Vigil
from nomemory.server.processes.worker import Worker
from nomemory.server.processes.worker_errors import WorkerError
from nomemory.server.standing_faults import LATE, NOT_STARTING, RERANKER

_SILENT_S = 30.0
"""How long it may say nothing before it is killed: one that is late may still be of use for the next question."""
_LOOK_S, _LONGEST_LOOK_S = 1.0, 60.0
"""How often is looked whether it runs; less and less often while it cannot be started, which costs a second of CPU."""
_FIRST_REST_S, _LONGEST_REST_S = 1.0, 30.0


class RerankerProcess:
    """Implements `Reranker`. One that is late or fails is not asked for a while: nobody waits for it in vain.

    Args:
        model: a directory, or a name that fastembed knows.
        threads: how many threads it may use.
        timeout_s: how long a question may take.
        vigil: how the process is watched, and where it is noted that it is of no use.
    """

    def __init__(self, model: str, threads: int, timeout_s: float, vigil: Vigil) -> None:
        launch = Launch("nomemory.server.reranking.reranker_worker", (model, str(threads)))
        self._worker = Worker(launch, _SILENT_S, f"{RERANKER}-process", vigil)
        self._timeout_s = timeout_s
        self._faults = vigil.faults
        self._backoff = Backoff(_FIRST_REST_S, _LONGEST_REST_S)
        self._rests_until = 0.0

    async def run(self) -> None:
        """Keep the process running until cancelled."""
        looks = Backoff(_LOOK_S, _LONGEST_LOOK_S)
        while True:
            try:
                await self._worker.start()
            except WorkerError as error:
                self._faults.stand(RERANKER, NOT_STARTING, f"it cannot be started: {error}")
            else:
                self._faults.clear(RERANKER, NOT_STARTING)
                looks.reset()
            await asyncio.sleep(looks.next_s())

    async def scores(self, question: str, texts: Sequence[str]) -> Sequence[float] | None:
        """Return how well each text answers."""
        if self._worker.process_id is None or time.monotonic() < self._rests_until:
            return None
        try:
            async with waiting_elsewhere(), asyncio.timeout(self._timeout_s):
                found: Sequence[float] = await self._worker.call((question, tuple(texts)))
        except TimeoutError:
            self._rest(f"it took longer than {self._timeout_s:g} s")
            return None
        except WorkerError as error:
            self._rest(f"it does not answer: {type(error).__name__}")
            return None
        self._backoff.reset()
        self._faults.clear(RERANKER, LATE)
        return found

    async def close(self) -> None:
        """End the process."""
        await self._worker.close()

    def _rest(self, detail: str) -> None:
        self._rests_until = time.monotonic() + self._backoff.next_s()
        self._faults.stand(RERANKER, LATE, detail)
