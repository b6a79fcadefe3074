"""Results of the semantic search for one sentence of a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nomemory.server.search.semantic.protocol import VectorHit


@dataclass(frozen=True, slots=True)
class SemanticHits:
    """The hits in the whole time range, best first, and the hits in each period that the question names."""

    overall_hits: Sequence[VectorHit]
    period_hits: Sequence[VectorHit] = ()
