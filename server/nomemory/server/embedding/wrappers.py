"""Embedders around another: one counts its calls, one keeps a queue, one notices failures, one remembers queries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from cachetools import LRUCache

from nomemory.server.admission.fair_slots import FairSlots, turn_at, waiting_elsewhere
from nomemory.server.embedding.protocol import Embedder, is_about_texts
from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import Fault, Reason
from nomemory.server.metrics.meters import EmbedderMeter


class EmbedderWrapper:
    """The attributes of an `Embedder`, taken from the wrapped one."""

    def __init__(self, within: Embedder) -> None:
        self._within = within

    @property
    def kind(self) -> str:
        """The kind of the wrapped embedder."""
        return self._within.kind

    @property
    def model(self) -> str:
        """The model's name."""
        return self._within.model

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return self._within.dimension


class MeteredEmbedder(EmbedderWrapper):
    """An `Embedder` around another.

    Args:
        embedder: the model.
        meter: counts.
    """

    def __init__(self, embedder: Embedder, meter: EmbedderMeter) -> None:
        super().__init__(embedder)
        self._meter = meter

    async def embed_query(self, text: str) -> Vector:
        """Embed a query."""
        with self._meter.calling("query", 1):
            return await self._within.embed_query(text)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents."""
        with self._meter.calling("document", len(texts)):
            return await self._within.embed_documents(texts)

    async def close(self) -> None:
        """Stop the model."""
        await self._within.close()


_AT_ONCE = 64
_AT_ONCE_LOCAL = 2
"""The local embedder takes one text after another. The second is there when the first is done."""


class SharedEmbedder(EmbedderWrapper):
    """An `Embedder` around another. A query that is given up leaves the queue, or is withdrawn.

    Args:
        within: what embeds.
        at_once: how many queries are with it at a time; 0 chooses by its kind.
        meter: is told how many wait.
    """

    def __init__(self, within: Embedder, at_once: int, meter: EmbedderMeter | None = None) -> None:
        super().__init__(within)
        self._slots = FairSlots(at_once or (_AT_ONCE_LOCAL if within.kind == "local" else _AT_ONCE))
        if meter is not None:
            meter.follow(self._slots)

    async def embed_query(self, text: str) -> Vector:
        """Embed a query."""
        async with turn_at(self._slots):
            return await self._within.embed_query(text)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents."""
        return await self._within.embed_documents(texts)

    async def close(self) -> None:
        """Stop the model."""
        await self._within.close()


_FAILURES_MIN = 3
"""So many in a row are a failing model: fewer may be chance, however far apart."""


class WatchedEmbedder(EmbedderWrapper):
    """An `Embedder` around another.

    Attributes:
        failing_s: seconds between the first and the latest of the queries that failed in a row; 0 if they were few.
            What embeds documents does not fail, and what asks for patience does not either.
    """

    def __init__(self, embedder: Embedder) -> None:
        super().__init__(embedder)
        self._failed_at: float | None = None
        self._failures = 0
        self.failing_s = 0.0

    async def embed_query(self, text: str) -> Vector:
        """Embed a query."""
        try:
            vector = await self._within.embed_query(text)
        except Fault as fault:
            if fault.reason == Reason.ERROR_REASON_EMBEDDER_UNAVAILABLE and is_about_texts(fault):
                self._note_failure()
            raise
        self._note_success()
        return vector

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents."""
        vectors = await self._within.embed_documents(texts)
        self._note_success()
        return vectors

    async def close(self) -> None:
        """Stop the model."""
        await self._within.close()

    def _note_failure(self) -> None:
        now = time.monotonic()
        self._failed_at = self._failed_at or now
        self._failures += 1
        if self._failures >= _FAILURES_MIN:
            self.failing_s = now - self._failed_at

    def _note_success(self) -> None:
        self._failed_at, self._failures, self.failing_s = None, 0, 0.0


@dataclass(slots=True)
class _Asked:
    """A query that is being embedded, and how many wait for it."""

    task: asyncio.Task[Vector]
    waiting: int = 0


class CachedEmbedder(EmbedderWrapper):
    """An `Embedder` that remembers the vectors of the latest queries, and asks once for queries that come together.

    Args:
        embedder: what embeds.
        kept_max: how many vectors are kept; 0 keeps none.
        meter: counts what was kept.
    """

    def __init__(self, embedder: Embedder, kept_max: int, meter: EmbedderMeter | None = None) -> None:
        super().__init__(embedder)
        self._meter = meter or EmbedderMeter()
        self._kept: LRUCache[str, Vector] = LRUCache(kept_max)
        self._asked: dict[str, _Asked] = {}

    async def embed_query(self, text: str) -> Vector:
        """Embed a query, unless its vector is cached. A failure is not cached. What nobody waits for is withdrawn."""
        self._meter.looked_up("memory", hit=text in self._kept)
        if text in self._kept:
            return self._kept[text]
        asked = self._asked.get(text) or self._ask(text)
        asked.waiting += 1
        try:
            async with waiting_elsewhere():
                return await asyncio.shield(asked.task)  # who gives up must not take the answer from the others
        finally:
            asked.waiting -= 1
            if not asked.waiting:
                self._withdraw(text, asked)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents."""
        return await self._within.embed_documents(texts)

    async def close(self) -> None:
        """Stop the model."""
        for asked in self._asked.values():
            asked.task.cancel()
        await self._within.close()

    def _ask(self, text: str) -> _Asked:
        asked = self._asked[text] = _Asked(asyncio.create_task(self._within.embed_query(text)))
        asked.task.add_done_callback(lambda done: self._keep(text, done))
        return asked

    def _withdraw(self, text: str, asked: _Asked) -> None:
        """Forget a query at once, so that nobody joins it while it is being cancelled. It may have its answer."""
        self._forget(text, asked.task)
        asked.task.cancel()

    def _forget(self, text: str, task: asyncio.Task[Vector]) -> None:
        if text in self._asked and self._asked[text].task is task:
            del self._asked[text]

    def _keep(self, text: str, done: asyncio.Task[Vector]) -> None:
        self._forget(text, done)
        if done.cancelled() or done.exception() is not None:
            return
        with suppress(ValueError):  # there is room for none
            self._kept[text] = done.result()
