"""Hits of a lexical search, combined from the parallel lists of a response."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nomemory.v1 import message_pb2, query_service_pb2


@dataclass(frozen=True, slots=True)
class LexicalHit:
    """A message that matches a lexical search, and its score. `highlight` is None unless highlights were requested."""

    message: message_pb2.ChatMessage
    score: float
    highlight: query_service_pb2.Highlight | None = None


def lexical_hits(reply: query_service_pb2.LexicalSearchResponse) -> Iterator[LexicalHit]:
    """Yield the hits in the response of a lexical search, best first."""
    for index, (message, score) in enumerate(zip(reply.items, reply.scores, strict=True)):
        yield LexicalHit(message, score.score, reply.highlights[index] if reply.highlights else None)
