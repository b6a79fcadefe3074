"""A listing in an exact order, read page by page from an engine that orders by score alone or by time alone.

Compares the index of words with the log, version by version.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import tantivy

from nomemory.server.lexical.protocol import LexicalHit, RankPosition
from nomemory.server.lexical.tantivy.query import all_of, of_range, score_of, unscored
from nomemory.server.lexical.tantivy.schema import WORTH, open_index, read_checkpoint

_PULL_LEAST = 256
_PULL_FACTOR = 8
"""How much is pulled at first, against the page or at least, and how many times more while the page is not settled."""


_TIES = 8
"""How much more is read by time than is wanted, so that messages of one instant are seldom cut apart."""


Scored = tuple[float, tantivy.DocAddress]
Dated = tuple[int, tantivy.DocAddress]
Placed = tuple[float, int, tantivy.DocAddress]
Scoring = Callable[[float], tantivy.Query | None]


def count(searcher: tantivy.Searcher, query: tantivy.Query) -> int:
    """Count the matches."""
    return int(searcher.search(unscored(query), limit=1).count)  # type: ignore[attr-defined]  # the engine's stub leaves it out


@dataclass(frozen=True, slots=True)
class Listing:
    """The matches of one query in one view of the index. Both orders are as LexicalIndex.search says; limit >= 1.

    Attributes:
        searcher: the view.
        query: what to match, with its scores.
        scoring: gives the query of those matches that score just so, or None where that would be a complex one.
        by_form: whether a score is multiplied by the worth of the message's form.
    """

    searcher: tantivy.Searcher
    query: tantivy.Query
    scoring: Scoring = lambda _score: None
    by_form: bool = False

    def by_time(
        self, score: float, after: RankPosition | None, limit: int, lately: Iterable[int] = ()
    ) -> list[LexicalHit]:
        """Read matches that all have this score: the engine keeps the newest, and none is pulled but the page.

        It walks through all of them, so where there are many, those since some times are looked at first: `lately`.
        """
        if after and after.score < score:
            return []
        for since_us in lately:
            late = Listing(self.searcher, all_of([self.query, of_range("ts", least=since_us)]))
            if len(page := late.by_time(score, after, limit)) >= limit:
                return page
        query = self.query
        if after and after.score == score:
            query = all_of([query, of_range("ts", most=after.ts_us)])
        pulled = self.searcher.search(query, limit=limit + _TIES, count=False, order_by_field="ts").hits
        return self._hits([(score, ts, address) for ts, address in self._uncut(pulled, limit)])

    def by_rank(self, after: RankPosition | None, limit: int) -> list[LexicalHit]:
        """Read matches by score: pulls what ranks above the page too, so that a page costs O(rank).

        Where more of them tie than were pulled, the tie is read by time instead of being pulled as a whole.
        """
        pull = max(_PULL_LEAST, _PULL_FACTOR * limit)
        while True:
            pulled = self._best(pull)
            if len(pulled) < pull:
                return self._page(pulled, after, limit)
            page = self._page(_settled(pulled), after, limit)
            if len(page) < limit:
                page += self.tied(pulled[-1][0], after, limit - len(page))
            if len(page) >= limit:
                return page
            pull = min(_PULL_FACTOR * pull, self.searcher.num_docs + 1)

    def tied(
        self, score: float, after: RankPosition | None, limit: int, lately: Iterable[int] = ()
    ) -> list[LexicalHit]:
        """Read matches that score just so by time; none where that would be too complex a query."""
        query = self.scoring(score)
        return [] if query is None else Listing(self.searcher, query).by_time(score, after, limit, lately)

    def _best(self, pull: int) -> list[Scored]:
        if not self.by_form:
            return list(self.searcher.search(self.query, limit=pull, count=False).hits)
        weighted = self.searcher.search(self.query, limit=pull, count=False, weight_by_field=WORTH).hits
        return [(score_of(score), address) for score, address in weighted]

    def _page(self, ranked: Sequence[Scored], after: RankPosition | None, limit: int) -> list[LexicalHit]:
        """Choose the best that do not come before `after`, and those that tie with the last of them."""
        taken = _enough(ranked, after, limit)
        times = self.searcher.fast_field_values("ts", [address for _, address in taken])
        placed = [(score, int(ts or 0), address) for (score, address), ts in zip(taken, times, strict=True)]
        if after:
            placed = [(score, ts, at) for score, ts, at in placed if (score, ts) <= (after.score, after.ts_us)]
        placed.sort(key=itemgetter(0, 1), reverse=True)
        if len(placed) > limit:
            last = placed[limit - 1][:2]
            placed = [one for one in placed if one[:2] >= last]
        return self._hits(placed)

    def _uncut(self, pulled: Sequence[Dated], limit: int) -> list[Dated]:
        """Keep what was said since the last of the wanted ones, and whatever was said at that very instant."""
        if len(pulled) <= limit:
            return list(pulled)
        oldest = pulled[limit - 1][0]
        if len(pulled) < limit + _TIES or pulled[-1][0] < oldest:
            return [(ts, address) for ts, address in pulled if ts >= oldest]
        return [(ts, address) for ts, address in pulled if ts > oldest] + self._said_at(oldest)

    def _said_at(self, ts: int) -> list[Dated]:
        """Return all matches of one instant."""
        tied = all_of([self.query, of_range("ts", least=ts, most=ts)])
        found = self.searcher.search(tied, limit=count(self.searcher, tied), count=False).hits
        return [(ts, address) for _, address in found]

    def _hits(self, placed: Sequence[Placed]) -> list[LexicalHit]:
        sequences = self.searcher.fast_field_values("seq", [address for _, _, address in placed])
        return [LexicalHit(score, ts, int(seq or 0)) for (score, ts, _), seq in zip(placed, sequences, strict=True)]


def _settled(pulled: Sequence[Scored]) -> list[Scored]:
    """Leave out the last scores, of which there may be more that were not pulled."""
    lowest = pulled[-1][0]
    return [(score, address) for score, address in pulled if score > lowest]


def _enough(ranked: Sequence[Scored], after: RankPosition | None, limit: int) -> list[Scored]:
    """Take whole ties, from the score of `after` on, until there are enough; its own tie may be delivered already."""
    taken: list[Scored] = []
    fresh = 0
    for score, tied in groupby(ranked, itemgetter(0)):
        if fresh >= limit:
            break
        if after is None or score <= after.score:
            group = list(tied)
            taken += group
            fresh += len(group) if after is None or score < after.score else 0
    return taken


_STORED = "SELECT seq FROM messages INDEXED BY messages_by_seq WHERE seq <= ?"
_GONE_SINCE = "SELECT removed_seq FROM removals WHERE seq > ?"


class Comparison(NamedTuple):
    """How far the index is, and what it lacks, and has too much, up to there."""

    applied: int
    missing: frozenset[int]
    orphans: frozenset[int]


def compare_words(directory: Path, log: sqlite3.Connection) -> Comparison:
    """Compare all versions up to the index's checkpoint. A server may be running.

    Raises:
        IndexUnusableError: the index cannot be read.
        sqlite3.Error: the log cannot be read.
    """
    index = open_index(directory)
    applied, indexed = read_checkpoint(index), _sequences(index)
    log.execute("BEGIN")
    stored = {sequence for (sequence,) in log.execute(_STORED, (applied,))}
    gone_since = {sequence for (sequence,) in log.execute(_GONE_SINCE, (applied,))}
    log.execute("COMMIT")
    return Comparison(
        applied, frozenset(stored - indexed), frozenset(each for each in indexed - stored - gone_since if each)
    )


def _sequences(index: tantivy.Index) -> set[int]:
    searcher = index.searcher()
    if not searcher.num_docs:
        return set()
    found = searcher.search(tantivy.Query.all_query(), limit=searcher.num_docs, count=False).hits
    return {int(each) for each in searcher.fast_field_values("seq", [place for _, place in found]) if each is not None}
