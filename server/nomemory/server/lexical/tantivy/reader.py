"""The reading side of the lexical index. Its methods answer at once, without suspending, but for expensive searches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import tantivy
from cachetools import LRUCache

from nomemory.server.faults import index_unavailable
from nomemory.server.lexical.form import FORMS
from nomemory.server.lexical.protocol import (
    IndexUnusableError,
    LexicalHit,
    Posting,
    RankPosition,
    Weighing,
    WordSearch,
)
from nomemory.server.lexical.query.tree import Leaf, Query, Sign
from nomemory.server.lexical.rarity import (
    EssentialLeaves,
    essential_leaves,
    expected,
    expected_all,
    weights_of,
)
from nomemory.server.lexical.tantivy.listing import Listing, count
from nomemory.server.lexical.tantivy.postings import TermLookup, memory_of
from nomemory.server.lexical.tantivy.query import (
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
from nomemory.server.lexical.tantivy.schema import (
    EnginePanicError,
    discard_index,
    has_former,
    open_index,
    ordinary_panics,
    read_checkpoint,
    reload_index,
)
from nomemory.server.message import EVERYTHING, Filter
from nomemory.server.structured_logs import get_logger

_log = get_logger("server")


_COUNTS_KEPT = 16_384
"""Counts that are remembered: a recall asks many things of one user, and much of it again."""

_STATES_KEPT = 4096
"""Users of whom is remembered, until the view moves, what it holds of them."""

_POSTINGS_BYTES = 16_000_000
"""About how much memory the postings take that are remembered."""

_SPANS_KEPT = 1024

_MANY = 1024
"""Matches that take longer to walk through than a further search does."""

_DEAR = 16
"""Leaves of a query from which on it is searched for in a thread. The engine lets go of the interpreter's lock."""

_OF_LATELY = 6.0
"""How many times more matches than are wanted are to be expected in a period of time: people talk in bursts."""

_CROWDED = 2.0
"""How many times more messages than are wanted make it likely that a page holds nothing else."""


class _State(NamedTuple):
    """How many messages of a user a view holds, and the latest sequence among them.

    Views that agree in this hold the same messages of that user: whatever comes is later, whatever goes is one less.
    """

    messages: int
    latest: int


class _PostingsKey(NamedTuple):
    """In what terms are looked up: a state of a user's messages, as far as a filter admits them."""

    user_id: str
    state: _State
    narrowed: Filter
    most: int


def open_or_discard(directory: Path) -> TantivyLexicalIndex:
    """Open the index for reading; one that cannot be read gives way to an empty one, which the indexer fills.

    So does one of a former version.
    """
    if has_former(directory):
        _log.info("the lexical index is of a former version and is built anew", directory=str(directory))
    try:
        return TantivyLexicalIndex(directory)
    except IndexUnusableError:
        _log.warning("the lexical index cannot be read and is built anew", directory=str(directory))
        discard_index(directory)
        return TantivyLexicalIndex(directory)


@contextmanager
def _answering() -> Iterator[None]:
    """Turn the error of an unreadable index into a fault that says when to retry."""
    try:
        with ordinary_panics():
            yield
    except (IndexUnusableError, EnginePanicError) as error:
        raise index_unavailable("the lexical index cannot be read") from error


class TantivyLexicalIndex:
    """Implements LexicalIndex over a directory that a writer, in any process, commits to.

    Args:
        directory: where the index lives; an empty one is created if it is missing.

    Raises:
        IndexUnusableError: something is there that cannot be read. The writer mends it when it opens.
    """

    lags: Final = True

    def __init__(self, directory: Path) -> None:
        self._meta = directory / "meta.json"
        self._index = open_index(directory)
        self._committed: tuple[int, int] | None = None
        self._state = lru_cache(_STATES_KEPT)(self._stated)
        self._count = lru_cache(_COUNTS_KEPT)(self._counted)
        self._span = lru_cache(_SPANS_KEPT)(self._spanned)
        self._postings = LRUCache[_PostingsKey, Mapping[str, Posting]](_POSTINGS_BYTES, memory_of)
        with _answering():
            self._take_latest()

    async def applied(self, _user_id: str) -> int:
        """Return the sequence up to which this reader's view contains everything, whoever wrote it."""
        return self._applied

    async def weigh(self, user_id: str, query: Query) -> Weighing:
        """Return the weight of each leaf, the rarer it is in this user's messages the more, and of each sign."""
        with _answering():
            state = self._state(user_id)
            counts = [self._count(user_id, state, leaf) for leaf in query.leaves]
            borne = (self._count(user_id, state, sign) > 0 for sign in query.signs)
            return Weighing(self._applied, weights_of(query, state.messages, counts, borne))

    async def search(self, asked: WordSearch) -> list[LexicalHit]:
        """Return the best versions with `sequence <= pinned`, by score and `ts` descending, from `after` on."""
        if asked.limit < 1:  # the engine panics
            return []
        with _answering():
            find = self._finding(asked)
            return find() if len(asked.query.leaves) < _DEAR else await asyncio.to_thread(find)

    async def total(self, user_id: str, narrowed: Filter) -> int:
        """Count the messages of a user that a filter admits."""
        with _answering():
            return count(self._searcher, all_of([of_user(user_id), *of_filter(narrowed)]))

    async def postings(self, user_id: str, terms: Sequence[str], narrowed: Filter, most: int) -> list[Posting]:
        """Return, for each term of the analysis, where it stands; the versions only where they are at most `most`."""
        with _answering():
            key = _PostingsKey(user_id, self._state(user_id), narrowed, most)
            found = self._postings.get(key, {})
            if missing := [term for term in dict.fromkeys(terms) if term not in found]:
                mine = [of_user(user_id), *of_filter(narrowed)]
                fresh = TermLookup(self._searcher, mine, key.state.messages).postings(missing, most)
                found = {**found, **fresh}
                self._postings[key] = found if memory_of(found) <= _POSTINGS_BYTES else fresh
        return [found[term] for term in terms]

    async def refresh(self) -> None:
        """Take the latest commit into view. Costs one `stat` if there is none.

        Raises:
            Fault: INDEX_UNAVAILABLE if the latest commit cannot be read; the view stays as it was.
        """
        with _answering():
            self._take_latest()

    async def close(self) -> None:
        """Close the index."""
        del self._searcher, self._index

    def _take_latest(self) -> None:
        committed = self._look()
        if committed == self._committed:
            return
        reload_index(self._index)
        self._searcher = self._index.searcher()
        self._state.cache_clear()
        self._applied = read_checkpoint(self._index)
        self._committed = committed

    def _finding(self, asked: WordSearch) -> Callable[[], list[LexicalHit]]:
        """Return what finds the best in the present view, in any thread, whatever the view is by then."""
        searcher, query, weights, after, limit = self._searcher, asked.query, asked.weights, asked.after, asked.limit
        mine, narrowing = of_user(asked.user_id), list(of_filter(asked.narrowed))
        if asked.pinned < self._applied:
            narrowing.append(of_range("seq", most=asked.pinned))
        messages = self._state(asked.user_id).messages
        likely = expected_all(messages, query, weights)
        wanted = limit if query.is_uniform else limit * len(FORMS) / 2
        lately = list(self._lately(asked, likely, wanted))
        if query.is_uniform:
            matching = all_of([mine, *narrowing, of_node(query.root, mine)])
            return lambda: Listing(searcher, matching).by_time(sum(weights, start=0.0), after, limit, lately)

        def listing(leaves: Collection[Leaf] = ()) -> Listing:
            ranking = all_of([of_ranking(query, weights, mine, leaves), *narrowing])
            return Listing(searcher, ranking, scoring, by_form=query.by_form)

        def scoring(score: float) -> tantivy.Query | None:
            tied = of_score(query, weights, score, mine)
            return None if tied is None else all_of([tied, *narrowing])

        def find() -> list[LexicalHit]:
            if likely > _CROWDED * limit * len(FORMS):  # the best score has more ties than are wanted
                page = listing().tied(sum(weights, start=0.0), after, limit, lately)
                if len(page) >= limit:
                    return page
            few = essential_leaves(query, weights) if asked.narrowed == EVERYTHING else None
            if few and _is_worthwhile(few, expected(messages, query, weights), limit) and _is_before(few, after):
                page = listing(few.leaves).by_rank(after, limit)
                if len(page) >= limit:
                    return page
            return listing().by_rank(after, limit)

        return find

    def _stated(self, user_id: str) -> _State:
        found = self._searcher.search(of_user(user_id), limit=1, order_by_field="seq")
        latest = next((sequence for sequence, _ in found.hits), 0)
        return _State(int(found.count), latest)  # type: ignore[attr-defined]  # the engine's stub leaves it out

    def _counted(self, user_id: str, _state: _State, part: Leaf | Sign) -> int:
        """Count the messages of a user where a leaf or a sign is found."""
        found = of_leaf(part) if isinstance(part, Leaf) else of_sign(part)
        return count(self._searcher, all_of([of_user(user_id), found]))

    def _lately(self, asked: WordSearch, likely: float, wanted: float) -> Iterator[int]:
        """Return times since which there are likely as many matches as are wanted, where there are many more in all."""
        narrowed, after = asked.narrowed, asked.after
        if likely < _MANY or narrowed.since_us is not None or narrowed.conversation_id or narrowed.metadata:
            return
        oldest, newest = self._span(asked.user_id, self._state(asked.user_id).messages // _MANY)
        ends = (newest, narrowed.until_us, after.ts_us if after else None)
        end = min(each for each in ends if each is not None)
        for share in (_OF_LATELY * wanted / likely, _OF_LATELY**2 * wanted / likely):
            if share < 1:
                yield int(end - share * (newest - oldest))

    def _spanned(self, user_id: str, _many: int) -> tuple[int, int]:
        """Return when the first and the last message of a user were said, of as many about: it serves to guess."""
        mine = of_user(user_id)
        ends = (
            self._searcher.search(mine, limit=1, count=False, order_by_field="ts", order=order).hits
            for order in (tantivy.Order.Asc, tantivy.Order.Desc)
        )
        oldest, newest = (next((ts for ts, _ in hits), 0) for hits in ends)
        return oldest, newest

    def _look(self) -> tuple[int, int] | None:
        """Tell one commit from another: each one replaces the file. None while the writer builds the index anew."""
        try:
            stat = self._meta.stat()
        except FileNotFoundError:
            return self._committed
        return stat.st_ino, stat.st_mtime_ns


def _is_worthwhile(few: EssentialLeaves, counts: Mapping[Leaf, float], limit: int) -> bool:
    """Guess whether those that have one of the few leaves fill a page, and far more messages have none."""
    return max(counts[leaf] for leaf in few.leaves) > _CROWDED * limit and max(counts.values()) > _MANY


def _is_before(few: EssentialLeaves, after: RankPosition | None) -> bool:
    """Return whether a page that begins there begins with those that have one of the few leaves."""
    return after is None or after.score > few.rest
