"""Find matches in Tantivy in time order, for queries whose matches all have the same score."""

from __future__ import annotations

from typing import Final

import tantivy

from nomemory.server.search.lexical.protocol import LexicalHit, RankPosition
from nomemory.server.search.lexical.tantivy.queries import (
    build_intersection_query,
    build_range_query,
    build_unscored_query,
)

_MARGIN: Final = 8
"""Additional hits per search, so that a second search for ties with the last hit is rarely needed."""

_Dated = tuple[int, tantivy.DocAddress]


def count_matches(searcher: tantivy.Searcher, query: tantivy.Query) -> int:
    """Return the number of matches of a query."""
    return int(searcher.search(build_unscored_query(query), limit=1).count)  # type: ignore[attr-defined]  # the engine's stub leaves it out


def find_newest_hits(
    searcher: tantivy.Searcher, query: tantivy.Query, score: float, start: RankPosition | None, limit: int
) -> list[LexicalHit]:
    """Return the newest matches from a position, as specified by `LexicalIndex.search`.

    `score` is the score of every match. `limit` must be at least 1; more hits are returned if the last hits tie.
    """
    if start and start.score < score:
        return []
    if start and start.score == score:
        query = build_intersection_query([query, build_range_query("ts", maximum=start.ts_us)])
    matches = searcher.search(query, limit=limit + _MARGIN, count=False, order_by_field="ts").hits
    dated = _append_ties(searcher, query, matches, limit)
    sequences = searcher.fast_field_values("seq", [address for _, address in dated])
    return [LexicalHit(score, ts, int(sequence or 0)) for (ts, _), sequence in zip(dated, sequences, strict=True)]


def find_nth_newest(searcher: tantivy.Searcher, query: tantivy.Query, number: int) -> int | None:
    """Return the timestamp of the n-th newest match, where n is at least 1; None if there are fewer than n matches."""
    hits = searcher.search(query, limit=1, offset=number - 1, count=False, order_by_field="ts").hits
    return next((int(ts) for ts, _ in hits), None)


def _append_ties(searcher: tantivy.Searcher, query: tantivy.Query, matches: list[_Dated], limit: int) -> list[_Dated]:
    """Return the first `limit` matches, and all further matches with the same timestamp as the last of them."""
    if len(matches) <= limit:
        return matches
    last = matches[limit - 1][0]
    if len(matches) < limit + _MARGIN or matches[-1][0] < last:
        return [(ts, address) for ts, address in matches if ts >= last]
    tied = build_intersection_query([query, build_range_query("ts", minimum=last, maximum=last)])
    addresses = [address for _, address in searcher.search(tied, limit=count_matches(searcher, tied), count=False).hits]
    return [(ts, address) for ts, address in matches if ts > last] + [(last, address) for address in addresses]
