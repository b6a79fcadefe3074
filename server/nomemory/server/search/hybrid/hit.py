"""A message that a hybrid search found, with its score and the score's components."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nomemory.server.message import LoggedMessage


@dataclass(frozen=True, slots=True)
class HybridHit:
    """A message, its score, and the components of the score."""

    message: LoggedMessage
    score: float
    semantic_score: float
    lexical_score: float
    coverage: float
    deviations: float
    components: Mapping[str, float]
