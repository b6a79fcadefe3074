"""Brings the index in line with the log, message by message, in small batches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from nomemory.server.embedding.document_vectors import DocumentVectors
from nomemory.server.embedding.unavailable import is_about_texts
from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import Fault, Reason
from nomemory.server.vector.backlog import Pending
from nomemory.server.vector.indexing_store import Wanted
from nomemory.server.vector.protocol import VectorIndex, VectorPoint
from nomemory.server.vector.quarantine import Suspects

TEXT_REFUSED, TEXT_BREAKS_EMBEDDER = "TEXT_REFUSED", "TEXT_BREAKS_EMBEDDER"

_BATCH_POINTS = 32
_BATCH_S = 0.2


@dataclass(slots=True)
class Batch:
    """Messages that are ready to be stored together: the number of their parts, or why they can have none."""

    began_at: float = field(default_factory=time.monotonic)
    points: list[VectorPoint] = field(default_factory=list)
    parts: dict[Pending, int] = field(default_factory=dict)
    refused: dict[Pending, str] = field(default_factory=dict)
    new: set[Pending] = field(default_factory=set)

    def add(self, wanted: Wanted, vectors: Sequence[Vector] | None) -> None:
        """Add a message with the vectors of its texts; None if the model refused one of them."""
        if wanted.is_new:
            self.new.add(wanted.item)
        if vectors is None:
            self.refused[wanted.item] = TEXT_REFUSED
            return
        points = wanted.points(vectors)
        self.points += points
        self.parts[wanted.item] = len(points)

    @property
    def is_due(self) -> bool:
        """Return whether it should be stored rather than grow."""
        return len(self.points) >= _BATCH_POINTS or time.monotonic() - self.began_at >= _BATCH_S


class Applier:
    """Embeds messages and stores their points.

    Args:
        index: where to.
        vectors: the vectors of texts.
        call_max: how many texts the embedder is best given at once.
        interrupted: tells whether the batch should end early, because somebody is waiting for another one.
        may_write: tells whether the index may be written to. If not, the batch is given up.
    """

    def __init__(
        self,
        index: VectorIndex,
        vectors: DocumentVectors,
        call_max: int,
        interrupted: Callable[[], bool],
        may_write: Callable[[], bool],
    ) -> None:
        self._may_write = may_write
        self._index = index
        self._vectors = vectors
        self._call_max = call_max
        self._interrupted = interrupted
        self._suspects = Suspects()

    async def apply(self, work: Sequence[Wanted]) -> tuple[Batch, Fault | None]:
        """Embed and store the first of these messages, as many as fit in one batch.

        Gives what was done, and the fault of the embedder that ended it early, if there was one.

        Raises:
            Fault: INDEX_UNAVAILABLE; nothing was done.
        """
        batch = Batch()
        fault = await self._fill(batch, work)
        if not self._may_write():
            return Batch(), fault
        await self._store(batch)
        return batch, fault

    async def _fill(self, batch: Batch, work: Sequence[Wanted]) -> Fault | None:
        for bite in self._bites(work):
            try:
                if not await self._embed(batch, bite):
                    return None
            except Fault as fault:
                if fault.reason != Reason.ERROR_REASON_EMBEDDER_UNAVAILABLE:
                    raise
                self._blame(batch, bite, fault)
                return fault
            if batch.is_due or self._interrupted():
                return None
        return None

    def _bites(self, work: Sequence[Wanted]) -> Iterator[list[Wanted]]:
        """Group messages whose texts fill one call of the embedder. Suspects come last, each alone."""
        bite: list[Wanted] = []
        for wanted in work:
            if wanted.item not in self._suspects:
                bite.append(wanted)
                if sum(len(other.texts) for other in bite) >= self._call_max:
                    yield bite
                    bite = []
        if bite:
            yield bite
        suspected = [wanted for wanted in work if wanted.item in self._suspects]
        yield from ([wanted] for wanted in sorted(suspected, key=lambda wanted: self._suspects.failures(wanted.item)))

    async def _embed(self, batch: Batch, bite: Sequence[Wanted]) -> bool:
        bite = await asyncio.gather(*map(self._with_kept, bite))
        texts = [text for wanted in bite for text in wanted.texts]
        if not await self._vectors.embed(texts, self._interrupted):
            return False
        if texts:
            self._suspects.clear([wanted.item for wanted in bite])
        for wanted in bite:
            batch.add(wanted, self._vectors.vectors(wanted.texts))
        return True

    async def _with_kept(self, wanted: Wanted) -> Wanted:
        """Take the vectors of a version that the index has already: to embed its texts again costs far more."""
        if wanted.message is None or wanted.is_new or not wanted.texts:
            return wanted
        kept = await self._index.stored(wanted.message.user_id, wanted.message.message_id, wanted.sequence)
        return replace(wanted, kept=tuple(kept), texts=()) if len(kept) == len(wanted.texts) else wanted

    def _blame(self, batch: Batch, bite: Sequence[Wanted], fault: Fault) -> None:
        if is_about_texts(fault):
            convicted = self._suspects.blame([wanted.item for wanted in bite])
            if convicted is not None:
                batch.refused[convicted] = TEXT_BREAKS_EMBEDDER

    async def _store(self, batch: Batch) -> None:
        """Store the new points before the surplus ones are removed, so that a message is never without."""
        if batch.points:
            await self._index.upsert(batch.points)
        surplus = batch.parts | dict.fromkeys(batch.refused, 0)
        await asyncio.gather(
            *(
                self._index.remove(item.user_id, item.message_id, from_part=parts)
                for item, parts in surplus.items()
                if item not in batch.new
            )
        )
