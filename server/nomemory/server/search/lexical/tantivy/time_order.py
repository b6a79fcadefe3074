"""Matches of Tantivy in the order of time: the listing of a query whose matches all have the same score."""

from __future__ import annotations

from typing import Final

import tantivy

from nomemory.server.search.lexical.protocol import LexicalHit, RankPosition
from nomemory.server.search.lexical.tantivy.queries import all_of, range_query, unscored

_MARGIN: Final = 8
"""Number of hits that are read beyond the limit, so that a second search for the last hit's time is rare."""

_Dated = tuple[int, tantivy.DocAddress]


def count(searcher: tantivy.Searcher, query: tantivy.Query) -> int:
    """Count the matches."""
    return int(searcher.search(unscored(query), limit=1).count)  # type: ignore[attr-defined]  # the engine's stub leaves it out


def newest_hits(
    searcher: tantivy.Searcher, query: tantivy.Query, score: float, start: RankPosition | None, limit: int
) -> list[LexicalHit]:
    """Return the newest matches from a position on, as `LexicalIndex.search` does; `limit` is at least 1.

    Args:
        searcher: the view of the index.
        query: the condition.
        score: the score of every match.
        start: where to begin; None: with the newest match.
        limit: the least number of hits, if there are as many.
    """
    if start and start.score < score:
        return []
    if start and start.score == score:
        query = all_of([query, range_query("ts", maximum=start.ts_us)])
    matches = searcher.search(query, limit=limit + _MARGIN, count=False, order_by_field="ts").hits
    dated = _with_ties(searcher, query, matches, limit)
    sequences = searcher.fast_field_values("seq", [address for _, address in dated])
    return [LexicalHit(score, ts, int(sequence or 0)) for (ts, _), sequence in zip(dated, sequences, strict=True)]


def nth_newest(searcher: tantivy.Searcher, query: tantivy.Query, number: int) -> int | None:
    """Return the time of the n-th newest match, counted from 1; None if there are fewer."""
    hits = searcher.search(query, limit=1, offset=number - 1, count=False, order_by_field="ts").hits
    return next((int(ts) for ts, _ in hits), None)


def _with_ties(searcher: tantivy.Searcher, query: tantivy.Query, matches: list[_Dated], limit: int) -> list[_Dated]:
    """Return the first `limit` matches, and all others of the same time as the last of them."""
    if len(matches) <= limit:
        return matches
    last = matches[limit - 1][0]
    if len(matches) < limit + _MARGIN or matches[-1][0] < last:
        return [(ts, address) for ts, address in matches if ts >= last]
    tied = all_of([query, range_query("ts", minimum=last, maximum=last)])
    addresses = [address for _, address in searcher.search(tied, limit=count(searcher, tied), count=False).hits]
    return [(ts, address) for ts, address in matches if ts > last] + [(last, address) for address in addresses]
