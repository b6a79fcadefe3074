"""Rank matches in Tantivy: score and sort all matches of the ranking window."""

from __future__ import annotations

from typing import Final

import numpy as np
import tantivy
from numpy.typing import NDArray

from nomemory.server.search.lexical.message_class import CLASSES, get_class_weight
from nomemory.server.search.lexical.protocol import LexicalHit, RankPosition
from nomemory.server.search.lexical.tantivy.schema import MESSAGE_CLASS

_CLASS_WEIGHTS: Final = np.array([get_class_weight(number) for number in CLASSES])


def find_ranked_hits(
    searcher: tantivy.Searcher,
    query: tantivy.Query,
    matches_max: int,
    start: RankPosition | None,
    limit: int,
    *,
    uses_class_weight: bool,
) -> list[LexicalHit]:
    """Return the best matches from a position, as specified by `LexicalIndex.search`.

    The scores of `query` must be the sums of the matching weights. If `uses_class_weight`, a score is multiplied by the
    weight of the message class. `matches_max` is an upper bound for the number of matches. `limit` must be at least 1;
    more hits are returned if the last hits tie.
    """
    matches = searcher.search(query, limit=max(matches_max, 1), count=False).hits
    addresses = [address for _, address in matches]
    scores = np.array([score for score, _ in matches], dtype=np.float64)
    if uses_class_weight:
        scores *= _CLASS_WEIGHTS[np.array(searcher.fast_field_values(MESSAGE_CLASS, addresses), dtype=np.int64)]
    times = np.array(searcher.fast_field_values("ts", addresses), dtype=np.int64)
    page = _select_page(scores, times, start, limit).tolist()
    sequences = searcher.fast_field_values("seq", [addresses[index] for index in page])
    return [
        LexicalHit(score, ts, int(sequence or 0))
        for score, ts, sequence in zip(scores[page].tolist(), times[page].tolist(), sequences, strict=True)
    ]


def _select_page(
    scores: NDArray[np.float64], times: NDArray[np.int64], start: RankPosition | None, limit: int
) -> NDArray[np.int64]:
    """Return the indexes of a page, best first, including all ties with its last match."""
    order = np.lexsort((times, scores))[::-1]
    if start:
        is_remaining = (scores < start.score) | ((scores == start.score) & (times <= start.ts_us))
        order = order[is_remaining[order]]
    if len(order) <= limit:
        return order
    last = order[limit - 1]
    tied = (scores[order] == scores[last]) & (times[order] == times[last])
    return order[: np.flatnonzero(tied)[-1] + 1]
