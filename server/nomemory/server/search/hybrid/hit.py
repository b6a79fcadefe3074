"""Hits of a hybrid search, with the components of their scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nomemory.server.message import LoggedMessage


@dataclass(frozen=True, slots=True)
class HybridHit:
    """A message with its hybrid score.

    Attributes:
        semantic_score: cosine similarity; 0 if semantic search did not return the message.
        lexical_score: BM25 score, before normalization.
        coverage: IDF-weighted share of the query terms that the message contains, 0 to 1.
        semantic_z_score: similarity in standard deviations above the mean similarity of the user's messages.
        components: the score components by name, which add up to `score`.
    """

    message: LoggedMessage
    score: float
    semantic_score: float
    lexical_score: float
    coverage: float
    semantic_z_score: float
    components: Mapping[str, float]
