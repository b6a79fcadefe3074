"""The reading side of the lexical index."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import numpy as np
import tantivy

from nomemory.server.faults import Fault, Reason
from nomemory.server.lexical.form import FORMS
from nomemory.server.lexical.panics import EnginePanicError, ordinary_panics
from nomemory.server.lexical.protocol import LexicalHit, Posting, RankPosition
from nomemory.server.lexical.query import Leaf, Query, Sign, Stream
from nomemory.server.lexical.tantivy_listing import Listing, count
from nomemory.server.lexical.tantivy_query import (
    all_of,
    of_filter,
    of_leaf,
    of_node,
    of_range,
    of_ranking,
    of_score,
    of_sign,
    of_user,
)
from nomemory.server.lexical.tantivy_schema import IndexUnusableError, open_index, read_checkpoint, reload_index
from nomemory.server.message import Filter

_STEPS = 64
"""Weights are whole numbers of 1/64."""

_RETRY_AFTER_S = 1.0

_COUNTS_KEPT = 4096
"""Counts that are remembered until the view moves: a recall asks many things of one user."""

_POSTINGS_KEPT = 512
"""Postings that are, likewise."""

_SIGN = 0.4
"""What a sign weighs of all that is asked, but never more than the heaviest of it."""

_CROWDED = 2.0
"""How many times more ties than are wanted make it likely that a page holds nothing else."""


@contextmanager
def _answering() -> Iterator[None]:
    """Let callers hear of an index that cannot be read, and when to come again."""
    try:
        with ordinary_panics():
            yield
    except (IndexUnusableError, EnginePanicError) as error:
        reason, message = Reason.ERROR_REASON_INDEX_UNAVAILABLE, "the lexical index cannot be read"
        raise Fault(reason, message, retry_after_s=_RETRY_AFTER_S) from error


class TantivyLexicalIndex:
    """Implements LexicalIndex over a directory that a writer, in any process, commits to.

    Args:
        directory: where the index lives; an empty one is created if it is missing.

    Raises:
        IndexUnusableError: something is there that cannot be read. The writer mends it when it opens.
    """

    def __init__(self, directory: Path) -> None:
        self._meta = directory / "meta.json"
        self._index = open_index(directory)
        self._committed: tuple[int, int] | None = None
        self._count = lru_cache(_COUNTS_KEPT)(self._counted)
        self._posting = lru_cache(_POSTINGS_KEPT)(self._posted)
        self.refresh()

    def applied(self) -> int:
        """Give the sequence up to which this reader's view contains everything."""
        return self._applied

    @_answering()
    def weigh(self, user_id: str, query: Query) -> tuple[float, ...]:
        """Give the weight of each leaf, the rarer it is in this user's messages the more, and of each sign."""
        if not query.leaves:
            return ()
        total = self._count(user_id, None)
        leaves = [_rarity(total, self._count(user_id, leaf), query.share(leaf)) for leaf in query.leaves]
        return (*leaves, *self._weights_of_signs(user_id, query.signs, min(_SIGN * sum(leaves), max(leaves))))

    @_answering()
    def search(
        self,
        user_id: str,
        query: Query,
        weights: Sequence[float],
        narrowed: Filter,
        *,
        pinned: int,
        after: RankPosition | None,
        limit: int,
    ) -> list[LexicalHit]:
        """Give the best versions with `sequence <= pinned`, by score and `ts` descending, from `after` on."""
        if limit < 1:  # the engine panics
            return []
        mine, narrowing = of_user(user_id), list(of_filter(narrowed))
        if pinned < self._applied:
            narrowing.append(of_range("seq", most=pinned))
        if query.is_uniform:
            matching = all_of([mine, *narrowing, of_node(query.root, mine)])
            return Listing(self._searcher, matching).by_time(sum(weights, start=0.0), after, limit)

        def scoring(score: float) -> tantivy.Query | None:
            tied = of_score(query, weights, score, mine)
            return None if tied is None else all_of([tied, *narrowing])

        ranking = all_of([of_ranking(query, weights, mine), *narrowing])
        listing = Listing(self._searcher, ranking, scoring, by_form=query.by_form)
        if self._is_crowded(user_id, query, weights, limit):
            page = listing.tied(sum(weights, start=0.0), after, limit)
            if len(page) >= limit:
                return page
        return listing.by_rank(after, limit)

    @_answering()
    def total(self, user_id: str, narrowed: Filter) -> int:
        """Count the messages of a user that a filter admits."""
        return count(self._searcher, all_of([of_user(user_id), *of_filter(narrowed)]))

    @_answering()
    def postings(self, user_id: str, terms: Sequence[str], narrowed: Filter, most: int) -> list[Posting]:
        """Give, for each term of the analysis, where it stands; the versions only where they are at most `most`."""
        return [self._posting(user_id, term, narrowed, most) for term in terms]

    @_answering()
    def refresh(self) -> None:
        """Take the latest commit into view. Costs one `stat` if there is none.

        Raises:
            Fault: INDEX_UNAVAILABLE if the latest commit cannot be read; the view stays as it was.
        """
        committed = self._look()
        if committed == self._committed:
            return
        reload_index(self._index)
        self._searcher = self._index.searcher()
        self._count.cache_clear()
        self._posting.cache_clear()
        self._applied = read_checkpoint(self._index)
        self._committed = committed

    def close(self) -> None:
        """Let go of the index."""
        del self._searcher, self._index

    def _counted(self, user_id: str, part: Leaf | Sign | None) -> int:
        """Count a user's messages in this view: all, or those where a leaf or a sign is found."""
        mine = of_user(user_id)
        if part is None:
            return count(self._searcher, mine)
        return count(self._searcher, all_of([mine, of_leaf(part) if isinstance(part, Leaf) else of_sign(part)]))

    def _weights_of_signs(self, user_id: str, signs: Sequence[Sign], weight: float) -> Iterator[float]:
        """Give the weight to the first sign that a message bears, and none to the others."""
        left = _rounded(weight)
        for sign in signs:
            borne = left and self._count(user_id, sign)
            yield left if borne else 0.0
            left = 0.0 if borne else left

    def _posted(self, user_id: str, term: str, narrowed: Filter, most: int) -> Posting:
        """Look a term up in this view."""
        wanted = [of_user(user_id), *of_filter(narrowed), of_leaf(Leaf(Stream.TERMS, (term,)))]
        found = self._searcher.search(all_of(wanted), limit=most)
        matching = int(found.count)  # type: ignore[attr-defined]  # the engine's stub leaves it out
        addresses = [address for _, address in found.hits] if matching <= most else []
        sequences = self._searcher.fast_field_values("seq", addresses)
        return Posting(matching, np.array(sequences, dtype=np.int64))

    def _is_crowded(self, user_id: str, query: Query, weights: Sequence[float], limit: int) -> bool:
        """Guess whether the best score has more ties than are wanted: a rarity is about ln(all / matching)."""
        rarities = [weight / query.share(leaf) for leaf, weight in zip(query.leaves, weights, strict=False)]
        return self._count(user_id, None) * math.exp(-sum(rarities)) > _CROWDED * limit * len(FORMS)

    def _look(self) -> tuple[int, int] | None:
        """Tell one commit from another: each one replaces the file. None while the writer builds the index anew."""
        try:
            stat = self._meta.stat()
        except FileNotFoundError:
            return self._committed
        return stat.st_ino, stat.st_mtime_ns


def _rarity(total: int, matching: int, share: float) -> float:
    """Give a share of the inverse document frequency."""
    return _rounded(share * math.log1p((total - matching + 0.5) / (matching + 0.5)))


def _rounded(weight: float) -> float:
    """Round a weight so that sums are exact in 32 bits, but never to 0."""
    return max(1, round(weight * _STEPS)) / _STEPS
