"""The reranker as the rest of the server sees it: in a process of its own, made of the settings."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol

from nomemory.server.admission.fair_slots import waiting_elsewhere
from nomemory.server.backoff import Backoff
from nomemory.server.processes.launch import Launch, WorkerError
from nomemory.server.processes.watch import Vigil
from nomemory.server.processes.worker import Worker
from nomemory.server.settings import Settings
from nomemory.server.standing_faults import LATE, NOT_STARTING, RERANKER


class Reranker(Protocol):
    """Reads a question and a message together, and says how well the one answers the other."""

    async def scores(self, question: str, texts: Sequence[str]) -> Sequence[float] | None:
        """Return how well each text answers, 0 to 1; None where that cannot be told now, or not in time."""


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
        launch = Launch("nomemory.server.reranking.worker", (model, str(threads)))
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


_FILES: Final = ("model.onnx", "tokenizer.json")


class RerankerSettingsError(ValueError):
    """The settings do not describe a reranker; the text says what to do."""


def choose_reranker(settings: Settings, vigil: Vigil) -> RerankerProcess | None:
    """Make the reranker; None if there is to be none. Nothing is started yet.

    Raises:
        RerankerSettingsError: its files or its packages are not there.
    """
    model = settings.reranker.model
    if not model:
        return None
    _refuse_missing(model)
    return RerankerProcess(model, settings.reranker.threads, settings.reranker.timeout_s, vigil)


def _refuse_missing(model: str) -> None:
    if not Path(model).is_dir():
        if os.sep in model and Path(model).is_absolute():
            raise RerankerSettingsError(f"NOMEMORY_RERANKER: there is no directory {model}")
        _refuse_without("fastembed", "fastembed", f"{model!r} is no directory, and to find it by name")
        return
    absent = [name for name in _FILES if not (Path(model) / name).is_file()]
    if absent:
        raise RerankerSettingsError(f"NOMEMORY_RERANKER: {model} has no {' and no '.join(absent)}")
    _refuse_without("onnxruntime", "rerank", "to run it")
    _refuse_without("tokenizers", "rerank", "to run it")


def _refuse_without(package: str, extra: str, purpose: str) -> None:
    if find_spec(package) is None:
        raise RerankerSettingsError(f"NOMEMORY_RERANKER: {purpose} takes the package {package}: nomemory[{extra}]")
