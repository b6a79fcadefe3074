"""The best messages of a search, read once more together with the question."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from nomemory.server.hybrid.relations import HybridHit
from nomemory.server.reranking.reranker import Reranker
from nomemory.v1 import message_pb2

COMPONENT: Final = "rerank"
_DECIMALS: Final = 6


@dataclass(frozen=True, slots=True)
class Reranking:
    """Adds what a reranker says to the scores of the best messages.

    Attributes:
        reranker: reads them.
        weight: what its score, 0 to 1, is multiplied with.
        messages_max: how many are read.
        chars: how much of each is read.
    """

    reranker: Reranker
    weight: float
    messages_max: int
    chars: int

    async def reranked(self, question: str, hits: Sequence[HybridHit], patience_s: float) -> list[HybridHit]:
        """Return the messages in their new order; in the one that they have, if there is no answer in time."""
        read, rest = hits[: self.messages_max], hits[self.messages_max :]
        try:
            async with asyncio.timeout(patience_s):
                scores = await self.reranker.scores(question, [self._text(hit) for hit in read]) if read else None
        except TimeoutError:
            scores = None
        if scores is None:
            return list(hits)
        added = [_plus(hit, round(self.weight * score, _DECIMALS)) for hit, score in zip(read, scores, strict=True)]
        return [*sorted(added, key=lambda hit: -hit.score), *rest]

    def _text(self, hit: HybridHit) -> str:
        return message_pb2.ChatMessage.FromString(hit.message.wire).content[: self.chars]


def _plus(hit: HybridHit, value: float) -> HybridHit:
    return replace(hit, score=hit.score + value, components={**hit.components, COMPONENT: value})
