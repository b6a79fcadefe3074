"""Brings the index in line with the log, message by message, in small batches.

Messages that may break the embedder are kept apart, so that they do not hold up the others.

A long message is embedded in parts that a model can take in.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from cachetools import LRUCache

from nomemory.server.embedding.protocol import Embedder, TextRefusedError, is_about_texts
from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import Fault, Reason
from nomemory.server.vector.indexing.backlog import Pending
from nomemory.server.vector.indexing.store import Wanted
from nomemory.server.vector.protocol import VectorIndex, VectorPoint

_STRIKES_MAX = 10
_SUSPECTS_MAX = 1024


@dataclass(slots=True)
class _Record:
    failed_alone: int = 0
    strikes: int = 0
    struck_at: int = -1


class Suspects:
    """Counts how often a message failed alone while others went through.

    Messages that failed together are to be tried alone from then on, after all the others, and those that failed alone
    the least come first. An outage makes suspects, but no strikes: nothing else goes through.
    """

    def __init__(self) -> None:
        self._records: OrderedDict[Pending, _Record] = OrderedDict()
        self._passed = 0

    def __contains__(self, item: Pending) -> bool:
        return item in self._records

    def failures(self, item: Pending) -> int:
        """Return how often a message failed alone."""
        return self._records[item].failed_alone if item in self._records else 0

    def blame(self, items: Sequence[Pending]) -> Pending | None:
        """Record that these failed together; return the one that must be set aside, if it failed alone too often."""
        for item in items:
            self._records.setdefault(item, _Record())
        while len(self._records) > _SUSPECTS_MAX:
            self._records.popitem(last=False)
        return items[0] if len(items) == 1 and self._is_out(items[0]) else None

    def clear(self, items: Sequence[Pending]) -> None:
        """Record that these succeeded."""
        self._passed += 1
        for item in items:
            self._records.pop(item, None)

    def _is_out(self, item: Pending) -> bool:
        record = self._records[item]
        record.failed_alone += 1
        if record.struck_at != self._passed:
            record.strikes, record.struck_at = record.strikes + 1, self._passed
        if record.strikes < _STRIKES_MAX:
            return False
        del self._records[item]
        return True


_KEPT_MIN = 1024


_NOT_ASKED: Final = object()


class DocumentVectors:
    """Embeds texts in calls of a fitting size, and keeps the results, so that work that is interrupted is not lost.

    Args:
        embedder: what embeds.
        call_max: most texts in one call of it.
        texts_max: most texts that are asked for at once; at least twice as many are kept.
    """

    def __init__(self, embedder: Embedder, call_max: int, texts_max: int) -> None:
        self._embedder = embedder
        self._call_max = call_max
        self._kept: LRUCache[str, Vector | None] = LRUCache(max(_KEPT_MIN, 2 * texts_max))
        self.embedded = 0

    async def embed(self, texts: Sequence[str], interrupted: Callable[[], bool]) -> bool:
        """Embed these texts; return False if it was interrupted between two calls.

        Raises:
            Fault: EMBEDDER_UNAVAILABLE; what was embedded before is kept.
        """
        missing = [text for text in dict.fromkeys(texts) if self._kept.get(text, _NOT_ASKED) is _NOT_ASKED]
        for at in range(0, len(missing), self._call_max):
            if at and interrupted():
                return False
            await self._call(missing[at : at + self._call_max])
        return True

    def vectors(self, texts: Sequence[str]) -> list[Vector] | None:
        """Return the vectors of texts that were just embedded, or None if the model refused one of them."""
        found = [self._kept[text] for text in texts]
        usable = [vector for vector in found if vector is not None]
        return usable if len(usable) == len(found) else None

    async def _call(self, texts: list[str]) -> None:
        """Embed texts together; one that is refused is noted and left out of the next try."""
        while texts:
            try:
                vectors = await self._embedder.embed_documents(texts)
            except TextRefusedError as refusal:
                self._kept[texts.pop(refusal.position)] = None
                continue
            self._kept.update(zip(texts, vectors, strict=True))
            self.embedded += len(texts)
            return


TEXT_REFUSED, TEXT_BREAKS_EMBEDDER = "TEXT_REFUSED", "TEXT_BREAKS_EMBEDDER"
_BATCH_S = 0.2


@dataclass(slots=True)
class Batch:
    """Messages that are ready to be stored together: the number of their parts, or why they can have none."""

    points_max: int
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
        return len(self.points) >= self.points_max or time.monotonic() - self.began_at >= _BATCH_S


@dataclass
class Applier:
    """Embeds messages and stores their points.

    Attributes:
        index: where to.
        vectors: the vectors of texts.
        call_max: how many texts the embedder is best given at once.
        batch_points: how many points are best stored at once.
        interrupted: tells whether the batch should end early, because somebody is waiting for another one.
        may_write: tells whether the index may be written to. If not, the batch is given up.
    """

    index: VectorIndex
    vectors: DocumentVectors
    call_max: int
    batch_points: int
    interrupted: Callable[[], bool]
    may_write: Callable[[], bool]
    _suspects: Suspects = field(default_factory=Suspects, init=False)

    async def apply(self, work: Sequence[Wanted]) -> tuple[Batch, Fault | None]:
        """Embed and store the first of these messages, as many as fit in one batch.

        Gives what was done, and the fault of the embedder that ended it early, if there was one.

        Raises:
            Fault: INDEX_UNAVAILABLE; nothing was done.
        """
        batch = Batch(self.batch_points)
        fault = await self._fill(batch, work)
        if not self.may_write():
            return Batch(self.batch_points), fault
        await self._store(batch)
        return batch, fault

    async def _fill(self, batch: Batch, work: Sequence[Wanted]) -> Fault | None:
        for group in self._groups(work):
            try:
                if not await self._embed(batch, group):
                    return None
            except Fault as fault:
                if fault.reason != Reason.ERROR_REASON_EMBEDDER_UNAVAILABLE:
                    raise
                self._blame(batch, group, fault)
                return fault
            if batch.is_due or self.interrupted():
                return None
        return None

    def _groups(self, work: Sequence[Wanted]) -> Iterator[list[Wanted]]:
        """Group messages whose texts fill one call of the embedder. Suspects come last, each alone."""
        group: list[Wanted] = []
        for wanted in work:
            if wanted.item not in self._suspects:
                group.append(wanted)
                if sum(len(other.texts) for other in group) >= self.call_max:
                    yield group
                    group = []
        if group:
            yield group
        suspected = [wanted for wanted in work if wanted.item in self._suspects]
        yield from ([wanted] for wanted in sorted(suspected, key=lambda wanted: self._suspects.failures(wanted.item)))

    async def _embed(self, batch: Batch, group: Sequence[Wanted]) -> bool:
        group = await asyncio.gather(*map(self._with_kept, group))
        texts = [text for wanted in group for text in wanted.texts]
        if not await self.vectors.embed(texts, self.interrupted):
            return False
        if texts:
            self._suspects.clear([wanted.item for wanted in group])
        for wanted in group:
            batch.add(wanted, self.vectors.vectors(wanted.texts))
        return True

    async def _with_kept(self, wanted: Wanted) -> Wanted:
        """Take the vectors of a version that the index has already: to embed its texts again costs far more."""
        if wanted.message is None or wanted.is_new or not wanted.texts:
            return wanted
        kept = await self.index.version_vectors(wanted.message.user_id, wanted.message.message_id, wanted.sequence)
        return replace(wanted, kept=tuple(kept), texts=()) if len(kept) == len(wanted.texts) else wanted

    def _blame(self, batch: Batch, group: Sequence[Wanted], fault: Fault) -> None:
        if is_about_texts(fault):
            convicted = self._suspects.blame([wanted.item for wanted in group])
            if convicted is not None:
                batch.refused[convicted] = TEXT_BREAKS_EMBEDDER

    async def _store(self, batch: Batch) -> None:
        """Store the new points before the surplus ones are removed, so that a message is never without."""
        if batch.points:
            await self.index.upsert(batch.points)
        parts = {
            (item.user_id, item.message_id): count
            for item, count in (batch.parts | dict.fromkeys(batch.refused, 0)).items()
            if item not in batch.new
        }
        with_surplus = await self.index.with_surplus_points(parts)
        await asyncio.gather(*(self.index.remove(*message, from_part=parts[message]) for message in with_surplus))


_SENTENCE_END = re.compile(r"[。！？!?…；;\n]+[”’」』\"')）\]]*|\.[”’\"')\]]*(?=\s)")
_PHRASE_END = re.compile(r"[，、,：:]|\s+")


def parts_of(text: str, part_chars: int, parts_max: int) -> list[str]:
    """Cut a text into parts of at most `part_chars` characters, about equally long, at the ends of sentences if it can.

    Every character that is not white space is in one part, in order, unless there are more than `parts_max` parts:
    what is beyond is left out. A part of nothing but white space is no part.
    """
    parts: list[str] = []
    for part in _raw_parts(text, part_chars):
        if len(parts) == parts_max:
            break
        if stripped := part.strip():
            parts.append(stripped)
    return parts


def _raw_parts(text: str, part_chars: int) -> Iterator[str]:
    at = 0
    while at < len(text):
        end = _end_of_part(text, at, part_chars)
        yield text[at:end]
        at = end


def _end_of_part(text: str, start: int, part_chars: int) -> int:
    """Choose where a part ends: as near as can be to an equal share of what is left."""
    left = len(text) - start
    if left <= part_chars:
        return len(text)
    share = -(-left // -(-left // part_chars))
    window = (start + (share + 1) // 2, start + part_chars)
    for boundary in (_SENTENCE_END, _PHRASE_END):
        ends = [found.end() for found in boundary.finditer(text, *window) if found.end() <= window[1]]
        if ends:
            return min(ends, key=lambda end: abs(end - start - share))
    return start + share
