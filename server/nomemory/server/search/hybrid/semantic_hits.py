"""Results of the semantic search for one sentence of a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nomemory.server.search.semantic.protocol import VectorHit


@dataclass(frozen=True, slots=True)
class SemanticHits:
    """The hits of one semantic search.

    Attributes:
        overall_hits: the hits in the whole time range, best first.
        is_complete: whether `overall_hits` contains all messages of the user that have a vector.
        period_hits: the hits in each period that the question names.
    """

    overall_hits: Sequence[VectorHit]
    is_complete: bool
    period_hits: Sequence[VectorHit] = ()
