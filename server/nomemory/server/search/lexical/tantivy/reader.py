"""The reading side of the lexical index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple, ParamSpec, TypeVar

import tantivy
from cachetools import LRUCache

from nomemory.server.faults import index_unavailable
from nomemory.server.message_filter import Filter
from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.runtime.structured_logs import get_logger
from nomemory.server.search.grammar.tree import Leaf, Query, SpeakerBoost
from nomemory.server.search.lexical.idf import query_weights
from nomemory.server.search.lexical.protocol import (
    FrozenRanking,
    IndexUnusableError,
    LexicalHit,
    LexicalSearch,
    Posting,
)
from nomemory.server.search.lexical.tantivy.panics import EnginePanicError, ordinary_panics
from nomemory.server.search.lexical.tantivy.postings import TermLookup, TimedPosting
from nomemory.server.search.lexical.tantivy.queries import (
    all_of,
    boost_query,
    filter_queries,
    leaf_query,
    matching_query,
    range_query,
    ranking_query,
    user_query,
    window_query,
)
from nomemory.server.search.lexical.tantivy.ranking import ranked_hits
from nomemory.server.search.lexical.tantivy.schema import (
    discard_index,
    has_former,
    open_index,
    read_checkpoint,
    reload_index,
)
from nomemory.server.search.lexical.tantivy.time_order import count, newest_hits, nth_newest
from nomemory.server.search.lexical.window import (
    WINDOW,
    RankingWindow,
    count_window_terms,
    exceeds_window,
)

_log = get_logger("server")

_FREQUENCIES_KEPT: Final = 65_536
"""Number of document frequencies that are cached: a recall asks many things of one user, and much of it again."""

_STATES_KEPT: Final = 4096
"""Number of users whose state is cached until the view moves."""

_WINDOWS_KEPT: Final = 1024
"""Number of windows whose beginning is cached."""

_POSTINGS_BYTES: Final = 16_000_000
"""Limit on the memory of cached postings, about."""

_INLINE_POSTINGS: Final = 16_384
"""Number of postings that a search may read on the event loop, about; a longer one runs in a thread."""

_LEAF_POSTINGS: Final = 1024
"""Number of postings that building and running the query of one term costs as much as."""

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class _UserState(NamedTuple):
    """The number of a user's messages in a view, and the latest sequence among them.

    Views that agree in both hold the same messages of that user: additions have later sequences, and removals lower the
    number.
    """

    messages: int
    latest: int


class _WindowKey(NamedTuple):
    """What the cached beginning of a window depends on."""

    user_id: str
    state: _UserState
    filter: Filter


class _PostingKey(NamedTuple):
    """What a cached posting depends on."""

    user_id: str
    state: _UserState
    filter: Filter
    max_sequences: int
    term: str


def open_or_discard(directory: Path, threads: ReadThreads) -> TantivyLexicalIndex:
    """Open the index for reading; one that cannot be read is replaced with an empty one, which the indexer fills.

    So is one of a former version.
    """
    if has_former(directory):
        _log.info("the lexical index is of a former version and is built anew", directory=str(directory))
    try:
        return TantivyLexicalIndex(directory, threads)
    except IndexUnusableError:
        _log.warning("the lexical index cannot be read and is built anew", directory=str(directory))
        discard_index(directory)
        return TantivyLexicalIndex(directory, threads)


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

    Short searches run on the event loop, because a thread costs more than they do.

    Args:
        directory: where the index lives; an empty one is created if it is missing.
        threads: run long searches.

    Raises:
        IndexUnusableError: something is there that cannot be read. The writer repairs it when it opens.
    """

    lags: Final = True

    def __init__(self, directory: Path, threads: ReadThreads) -> None:
        self._threads = threads
        self._meta = directory / "meta.json"
        self._index = open_index(directory)
        self._committed: tuple[int, int] | None = None
        self._state = lru_cache(_STATES_KEPT)(self._read_state)
        self._frequencies = LRUCache[tuple[str, _UserState], Mapping[Leaf | SpeakerBoost, int]](_FREQUENCIES_KEPT, len)
        self._windows = LRUCache[_WindowKey, int | None](_WINDOWS_KEPT)
        self._postings = LRUCache[_PostingKey, TimedPosting](_POSTINGS_BYTES, attrgetter("memory_bytes"))
        with _answering():
            self._take_latest()

    async def applied(self, _user_id: str) -> int:
        """Return the sequence up to which this reader's view contains everything, whoever wrote it."""
        return self._applied

    async def freeze(self, user_id: str, query: Query, message_filter: Filter) -> FrozenRanking:
        """Return the weights of a query and the window of its matches, in the present view."""
        with _answering():
            searcher, applied, state = self._searcher, self._applied, self._state(user_id)
            counts = await self._counted(searcher, user_id, state, (*query.leaves, *query.boosts))
            frequencies, boosted = counts[: len(query.leaves)], counts[len(query.leaves) :]
            weights = query_weights(query, state.messages, frequencies, map(bool, boosted))
            if not exceeds_window(query, frequencies, state.messages):
                return FrozenRanking(applied, weights)
            since_us = await self._window_since(searcher, user_id, state, message_filter)
            terms = count_window_terms(query, weights, frequencies)
            return FrozenRanking(applied, weights, None if since_us is None else RankingWindow(terms, since_us))

    async def search(self, search: LexicalSearch) -> list[LexicalHit]:
        """Return the best hits from `search.start` on, in the present view."""
        if search.limit < 1:  # the engine panics
            return []
        with _answering():
            state = self._state(search.user_id)
            has_newer = search.ranking.applied < self._applied
            return await self._run(
                state,
                len(search.query.leaves),
                _search,
                self._searcher,
                search,
                matches_max=state.messages,
                has_newer=has_newer,
            )

    async def total(self, user_id: str, message_filter: Filter) -> int:
        """Count the messages of a user that a filter admits."""
        with _answering():
            return count(self._searcher, all_of([user_query(user_id), *filter_queries(message_filter)]))

    async def postings(
        self, user_id: str, terms: Sequence[str], message_filter: Filter, max_sequences: int
    ) -> list[Posting]:
        """Return the posting of each term, without the sequences of terms in more than `max_sequences` messages."""
        until_us = message_filter.until_us
        with _answering():
            cached = await self._timed_postings(user_id, terms, replace(message_filter, until_us=None), max_sequences)
            postings = {term: posting.before(until_us) for term, posting in cached.items()}
            if frequent := [term for term, posting in postings.items() if posting is None]:
                counted = await self._timed_postings(user_id, frequent, message_filter, max_sequences)
                postings |= {term: posting.before(None) for term, posting in counted.items()}
        return [posting for term in terms if (posting := postings[term]) is not None]

    async def _timed_postings(
        self, user_id: str, terms: Sequence[str], message_filter: Filter, max_sequences: int
    ) -> dict[str, TimedPosting]:
        """Return the posting of each term. Postings are cached until the user's messages in the view change."""
        state = self._state(user_id)
        keys = {term: _PostingKey(user_id, state, message_filter, max_sequences, term) for term in terms}
        cached = {term: posting for term, key in keys.items() if (posting := self._postings.get(key))}
        if missing := [term for term in keys if term not in cached]:
            lookup = TermLookup(self._searcher, [user_query(user_id), *filter_queries(message_filter)], state.messages)
            fresh = await self._run(state, len(missing), lookup.postings, missing, max_sequences)
            self._postings.update((keys[term], posting) for term, posting in fresh.items())
            cached |= fresh
        return cached

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
        committed = self._commit_id()
        if committed == self._committed:
            return
        reload_index(self._index)
        self._searcher = self._index.searcher()
        self._state.cache_clear()
        self._applied = read_checkpoint(self._index)
        self._committed = committed

    async def _run(
        self,
        state: _UserState,
        leaves: int,
        function: Callable[_Parameters, _Result],
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> _Result:
        """Run a search of a user's messages for a number of leaves, in a thread if it is long."""
        if max(state.messages, _LEAF_POSTINGS) * leaves <= _INLINE_POSTINGS:
            return function(*args, **kwargs)
        return await self._threads.run(function, *args, **kwargs)

    async def _counted(
        self, searcher: tantivy.Searcher, user_id: str, state: _UserState, parts: Sequence[Leaf | SpeakerBoost]
    ) -> list[int]:
        """Return the document frequency of each leaf and boost within a user."""
        known = self._frequencies.get((user_id, state), {})
        if missing := [part for part in parts if part not in known]:
            counts = await self._run(state, len(missing), _count_all, searcher, user_id, missing)
            fresh = dict(zip(missing, counts, strict=True))
            known = {**known, **fresh}
            self._frequencies[user_id, state] = known if len(known) <= _FREQUENCIES_KEPT else fresh
        return [known[part] for part in parts]

    async def _window_since(
        self, searcher: tantivy.Searcher, user_id: str, state: _UserState, message_filter: Filter
    ) -> int | None:
        """Return since when a window ranks all matches; None if the filter admits no more messages than a window."""
        key = _WindowKey(user_id, state, message_filter)
        if key not in self._windows:
            admitted = all_of([user_query(user_id), *filter_queries(message_filter)])
            self._windows[key] = await self._threads.run(_newest_half, searcher, admitted)
        return self._windows[key]

    def _read_state(self, user_id: str) -> _UserState:
        result = self._searcher.search(user_query(user_id), limit=1, order_by_field="seq")
        latest = next((sequence for sequence, _ in result.hits), 0)
        return _UserState(int(result.count), latest)  # type: ignore[attr-defined]  # the engine's stub leaves it out

    def _commit_id(self) -> tuple[int, int] | None:
        """Tell one commit from another: each one replaces the file. None while the writer builds the index anew."""
        try:
            stat = self._meta.stat()
        except FileNotFoundError:
            return self._committed
        return stat.st_ino, stat.st_mtime_ns


def _search(
    searcher: tantivy.Searcher, search: LexicalSearch, *, matches_max: int, has_newer: bool
) -> list[LexicalHit]:
    """Search a view, which may have versions that are newer than the listing."""
    query, (applied, weights, window), user = search.query, search.ranking, user_query(search.user_id)
    conditions = list(filter_queries(search.filter))
    if has_newer:
        conditions.append(range_query("seq", maximum=applied))
    if query.is_uniform:
        matching = all_of([matching_query(query, user), *conditions])
        return newest_hits(searcher, matching, sum(weights, start=0.0), search.start, search.limit)
    if window:
        conditions.append(window_query(query, weights, window, user))
    ranking = all_of([ranking_query(query, weights, user), *conditions])
    return ranked_hits(searcher, ranking, matches_max, search.start, search.limit, by_class=query.by_class)


def _newest_half(searcher: tantivy.Searcher, admitted: tantivy.Query) -> int | None:
    """Return since when half a window of messages was sent; None if a window holds all of them."""
    return nth_newest(searcher, admitted, WINDOW // 2) if count(searcher, admitted) > WINDOW else None


def _count_all(searcher: tantivy.Searcher, user_id: str, parts: Sequence[Leaf | SpeakerBoost]) -> list[int]:
    user = user_query(user_id)
    queries = [leaf_query(part) if isinstance(part, Leaf) else boost_query(part) for part in parts]
    return [count(searcher, all_of([user, query])) for query in queries]
