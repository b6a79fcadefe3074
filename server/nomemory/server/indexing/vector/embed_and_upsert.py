"""Embed a batch of messages and upsert their points."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from nomemory.server.embedding.protocol import may_be_caused_by_text
from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import Fault, Reason
from nomemory.server.indexing.vector.backlog import PendingMessage
from nomemory.server.indexing.vector.desired_points import DesiredPoints
from nomemory.server.indexing.vector.document_vectors import DocumentVectors
from nomemory.server.indexing.vector.poison_messages import PoisonMessageTracker
from nomemory.server.search.semantic.protocol import VectorIndex, VectorPoint

TEXT_REFUSED: Final = "TEXT_REFUSED"
TEXT_BREAKS_EMBEDDER: Final = "TEXT_BREAKS_EMBEDDER"
"""The reasons for dead letters."""
_MAX_BATCH_S: Final = 0.2


@dataclass(slots=True)
class PointBatch:
    """A batch of messages whose points are stored together.

    Attributes:
        max_points: number of points at which the batch is full.
        refused: the rejected messages, each with its reason.
        new: messages that have no points in the index yet.
    """

    max_points: int
    started_at: float = field(default_factory=time.monotonic)
    points: list[VectorPoint] = field(default_factory=list)
    parts: dict[PendingMessage, int] = field(default_factory=dict)
    refused: dict[PendingMessage, str] = field(default_factory=dict)
    new: set[PendingMessage] = field(default_factory=set)

    def add(self, desired: DesiredPoints, vectors: Sequence[Vector] | None) -> None:
        """Add a message with the vectors of its texts; the vectors are None if the model rejected a text."""
        if desired.is_new:
            self.new.add(desired.item)
        if vectors is None:
            self.refused[desired.item] = TEXT_REFUSED
            return
        points = desired.build_points(vectors)
        self.points += points
        self.parts[desired.item] = len(points)

    @property
    def is_due(self) -> bool:
        """Whether the batch is full or has reached its maximum age."""
        return len(self.points) >= self.max_points or time.monotonic() - self.started_at >= _MAX_BATCH_S


@dataclass
class BatchIndexer:
    """Embeds messages in batches and stores their points in the vector index.

    Attributes:
        max_call_texts: number of texts to collect for one call of the embedder.
        batch_points: number of points at which a batch is stored.
        interrupted: returns whether to end a batch early, for example because other messages have become urgent.
        may_write: returns whether this server may still write to the index; if not, the batch is dropped.
    """

    index: VectorIndex
    vectors: DocumentVectors
    max_call_texts: int
    batch_points: int
    interrupted: Callable[[], bool]
    may_write: Callable[[], bool]
    _suspects: PoisonMessageTracker = field(default_factory=PoisonMessageTracker, init=False)

    async def index_batch(self, messages: Sequence[DesiredPoints]) -> tuple[PointBatch, Fault | None]:
        """Embed and store one batch from the beginning of a list of messages.

        Returns:
            The stored batch, which is empty if `may_write` returned False, and the fault of the embedder if a fault
            ended the batch early.

        Raises:
            Fault: INDEX_UNAVAILABLE; the batch may have been partially stored.
        """
        batch = PointBatch(self.batch_points)
        fault = await self._fill_batch(batch, messages)
        if not self.may_write():
            return PointBatch(self.batch_points), fault
        await self._store_points(batch)
        return batch, fault

    async def _fill_batch(self, batch: PointBatch, messages: Sequence[DesiredPoints]) -> Fault | None:
        for group in self._group_messages(messages):
            try:
                if not await self._embed_group(batch, group):
                    return None
            except Fault as fault:
                if fault.reason != Reason.ERROR_REASON_EMBEDDER_UNAVAILABLE:
                    raise
                self._record_failure(batch, group, fault)
                return fault
            if batch.is_due or self.interrupted():
                return None
        return None

    def _group_messages(self, messages: Sequence[DesiredPoints]) -> Iterator[list[DesiredPoints]]:
        """Group messages for calls of the embedder. Suspected poison messages come last, each in its own group."""
        group: list[DesiredPoints] = []
        for desired in messages:
            if desired.item not in self._suspects:
                group.append(desired)
                if sum(len(other.texts) for other in group) >= self.max_call_texts:
                    yield group
                    group = []
        if group:
            yield group
        suspects = [desired for desired in messages if desired.item in self._suspects]
        yield from (
            [desired] for desired in sorted(suspects, key=lambda desired: self._suspects.count_failures(desired.item))
        )

    async def _embed_group(self, batch: PointBatch, group: Sequence[DesiredPoints]) -> bool:
        group = await asyncio.gather(*map(self._add_stored_vectors, group))
        texts = [text for desired in group for text in desired.texts]
        if not await self.vectors.embed(texts, self.interrupted):
            return False
        if texts:
            self._suspects.record_success([desired.item for desired in group])
        for desired in group:
            batch.add(desired, self.vectors.get_vectors(desired.texts))
        return True

    async def _add_stored_vectors(self, desired: DesiredPoints) -> DesiredPoints:
        """Take the vectors of a version from the index if possible, because embedding is far more expensive."""
        message = desired.message
        if message is None or desired.is_new or not desired.texts:
            return desired
        stored = await self.index.read_version_vectors(message.user_id, message.message_id, desired.sequence)
        return replace(desired, stored=tuple(stored), texts=()) if len(stored) == len(desired.texts) else desired

    def _record_failure(self, batch: PointBatch, group: Sequence[DesiredPoints], fault: Fault) -> None:
        if may_be_caused_by_text(fault):
            dead = self._suspects.record_failure([desired.item for desired in group])
            if dead is not None:
                batch.refused[dead] = TEXT_BREAKS_EMBEDDER

    async def _store_points(self, batch: PointBatch) -> None:
        """Store new points before removing surplus ones, so that a message always has points."""
        if batch.points:
            await self.index.upsert(batch.points)
        parts = {
            (item.user_id, item.message_id): count
            for item, count in (batch.parts | dict.fromkeys(batch.refused, 0)).items()
            if item not in batch.new
        }
        with_surplus = await self.index.find_surplus_messages(parts)
        await asyncio.gather(*(self.index.remove(*message, from_part=parts[message]) for message in with_surplus))
