"""Search the lexical index in Tantivy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple, ParamSpec, TypeVar

import tantivy
from cachetools import LRUCache

from nomemory.server.faults import build_index_unavailable_fault
from nomemory.server.message_filter import Filter
from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.runtime.structured_logs import get_logger
from nomemory.server.search.grammar.tree import Leaf, Query, SpeakerBoost
from nomemory.server.search.lexical.idf import compute_query_weights
from nomemory.server.search.lexical.protocol import (
    FrozenRanking,
    IndexUnusableError,
    LexicalHit,
    LexicalSearch,
    Posting,
)
from nomemory.server.search.lexical.tantivy.panics import EnginePanicError, translate_panics
from nomemory.server.search.lexical.tantivy.postings import TermLookup, TimedPosting
from nomemory.server.search.lexical.tantivy.queries import (
    build_boost_query,
    build_filter_queries,
    build_intersection_query,
    build_leaf_query,
    build_matching_query,
    build_range_query,
    build_ranking_query,
    build_user_query,
    build_window_query,
)
from nomemory.server.search.lexical.tantivy.ranking import find_ranked_hits
from nomemory.server.search.lexical.tantivy.schema import (
    discard_index,
    has_previous_version,
    open_index,
    read_checkpoint,
    reload_index,
)
from nomemory.server.search.lexical.tantivy.time_order import count_matches, find_newest_hits, find_nth_newest
from nomemory.server.search.lexical.window import (
    WINDOW,
    RankingWindow,
    count_window_terms,
    exceeds_window,
)

_log = get_logger("server")

_CACHED_FREQUENCIES: Final = 65_536
"""Number of cached document frequencies. The searches of a recall share many terms."""

_CACHED_STATES: Final = 4096
"""Number of users whose state is cached, until the snapshot changes."""

_CACHED_WINDOWS: Final = 1024
"""Number of cached start times of ranking windows."""

_CACHED_SCOPES: Final = 4096
"""Number of combinations of user, snapshot state and filter whose postings are cached."""

_POSTINGS_BYTES: Final = 16_000_000
"""Approximate memory limit of cached postings."""

_INLINE_POSTINGS: Final = 16_384
"""Estimated number of postings up to which a search runs on the event loop. Longer searches run in a thread."""

_LEAF_POSTINGS: Final = 1024
"""Fixed cost of the query of one term, in postings."""

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class _UserState(NamedTuple):
    """The number of a user's messages in a snapshot, and their latest sequence number.

    Snapshots with the same state contain the same messages of the user: an addition increases the latest sequence
    number, and a removal decreases the number of messages.
    """

    messages: int
    latest: int


class _WindowKey(NamedTuple):
    """Cache key of the start time of a ranking window."""

    user_id: str
    state: _UserState
    filter: Filter


class _PostingsScope(NamedTuple):
    """The messages in which the terms of cached postings were looked up."""

    user_id: str
    state: _UserState
    filter: Filter
    max_sequences: int


def open_lexical_index(directory: Path, threads: ReadThreads) -> TantivyLexicalIndex:
    """Open the index for reading. Replace an unreadable index with an empty one.

    The indexer adds the messages to the empty index, and deletes indexes of previous schema versions.
    """
    if has_previous_version(directory):
        _log.info("the lexical index has an outdated schema and is being rebuilt", directory=str(directory))
    try:
        return TantivyLexicalIndex(directory, threads)
    except IndexUnusableError:
        _log.warning("the lexical index cannot be read and is being rebuilt", directory=str(directory))
        discard_index(directory)
        return TantivyLexicalIndex(directory, threads)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Convert the errors of an unreadable index to INDEX_UNAVAILABLE."""
    try:
        with translate_panics():
            yield
    except (IndexUnusableError, EnginePanicError) as error:
        raise build_index_unavailable_fault("the lexical index cannot be read: retry later") from error


class TantivyLexicalIndex:
    """Implements LexicalIndex for an index directory. The writer of the index may be in another process.

    Short searches run on the event loop, because a switch to a thread would take longer.

    Args:
        directory: the directory of the index. If the directory does not exist, an empty index is created.
        threads: the threads for long searches.

    Raises:
        IndexUnusableError: the index cannot be read. The writer replaces an unreadable index when it opens the
            directory.
    """

    can_lag: Final = True

    def __init__(self, directory: Path, threads: ReadThreads) -> None:
        self._threads = threads
        self._meta = directory / "meta.json"
        self._index = open_index(directory)
        self._committed: tuple[int, int] | None = None
        self._state = lru_cache(_CACHED_STATES)(self._read_state)
        self._frequencies = LRUCache[tuple[str, _UserState], Mapping[Leaf | SpeakerBoost, int]](
            _CACHED_FREQUENCIES, len
        )
        self._windows = LRUCache[_WindowKey, int | None](_CACHED_WINDOWS)
        self._scope_numbers = LRUCache[_PostingsScope, int](_CACHED_SCOPES)
        self._next_scope_number = count()
        self._postings = LRUCache[tuple[int, str], TimedPosting](_POSTINGS_BYTES, attrgetter("memory_bytes"))
        with _translate_errors():
            self._load_latest_commit()

    async def read_applied_sequence(self, _user_id: str) -> int:
        """Return the sequence number up to which the current snapshot contains all changes of all users."""
        return self._applied

    async def freeze(self, user_id: str, query: Query, message_filter: Filter) -> FrozenRanking:
        """Return the weights of a query and the window of its matches in the current snapshot."""
        with _translate_errors():
            searcher, applied, state = self._searcher, self._applied, self._state(user_id)
            counts = await self._read_frequencies(searcher, user_id, state, (*query.leaves, *query.boosts))
            frequencies, boosted = counts[: len(query.leaves)], counts[len(query.leaves) :]
            weights = compute_query_weights(query, state.messages, frequencies, map(bool, boosted))
            if not exceeds_window(query, frequencies, state.messages):
                return FrozenRanking(applied, weights)
            since_us = await self._find_window_start(searcher, user_id, state, message_filter)
            terms = count_window_terms(query, weights, frequencies)
            return FrozenRanking(applied, weights, None if since_us is None else RankingWindow(terms, since_us))

    async def search(self, search: LexicalSearch) -> list[LexicalHit]:
        """Return the best hits from the position `search.start` on, in the current snapshot."""
        if search.limit < 1:  # the engine would panic
            return []
        with _translate_errors():
            state = self._state(search.user_id)
            has_newer = search.ranking.applied_sequence < self._applied
            return await self._run_search(
                state,
                len(search.query.leaves),
                _search_snapshot,
                self._searcher,
                search,
                matches_max=state.messages,
                has_newer=has_newer,
            )

    async def count_messages(self, user_id: str, message_filter: Filter) -> int:
        """Count the messages of a user that pass a filter."""
        with _translate_errors():
            return count_matches(
                self._searcher,
                build_intersection_query([build_user_query(user_id), *build_filter_queries(message_filter)]),
            )

    async def read_postings(
        self, user_id: str, terms: Sequence[str], message_filter: Filter, max_sequences: int
    ) -> list[Posting]:
        """Return the posting of each term; omit the sequence numbers of terms in more than `max_sequences` messages."""
        without_end = replace(message_filter, until_us=None)
        with _translate_errors():
            cached = await self._read_timed_postings(user_id, terms, without_end, max_sequences)
            before = {term: posting.clip_posting(message_filter.until_us) for term, posting in cached.items()}
            frequent = [term for term, posting in before.items() if posting is None]
            counted = await self._read_timed_postings(user_id, frequent, message_filter, max_sequences)
        return [before[term] or counted[term].posting for term in terms]

    async def _read_timed_postings(
        self, user_id: str, terms: Sequence[str], message_filter: Filter, max_sequences: int
    ) -> dict[str, TimedPosting]:
        """Return the posting of each term, from the cache if the user's messages in the snapshot have not changed."""
        state = self._state(user_id)
        scope = _PostingsScope(user_id, state, message_filter, max_sequences)
        number = self._scope_numbers.setdefault(scope, next(self._next_scope_number))
        postings = {term: posting for term in terms if (posting := self._postings.get((number, term)))}
        if missing := [term for term in dict.fromkeys(terms) if term not in postings]:
            lookup = TermLookup(
                self._searcher, [build_user_query(user_id), *build_filter_queries(message_filter)], state.messages
            )
            fresh = await self._run_search(state, len(missing), lookup.read_postings, missing, max_sequences)
            self._postings.update(((number, term), posting) for term, posting in fresh.items())
            postings |= fresh
        return postings

    async def refresh(self) -> None:
        """Update the snapshot to the latest commit. If there is no new commit, `refresh` costs one `stat` call.

        Raises:
            Fault: INDEX_UNAVAILABLE: the latest commit cannot be read. After this fault, searches continue to use the
                previous snapshot.
        """
        with _translate_errors():
            self._load_latest_commit()

    async def close(self) -> None:
        """Close the index."""
        del self._searcher, self._index

    def _load_latest_commit(self) -> None:
        committed = self._read_commit_id()
        if committed == self._committed:
            return
        reload_index(self._index)
        self._searcher = self._index.searcher()
        self._state.cache_clear()
        self._applied = read_checkpoint(self._index)
        self._committed = committed

    async def _run_search(
        self,
        state: _UserState,
        term_count: int,
        function: Callable[_Parameters, _Result],
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> _Result:
        """Run a search for `term_count` terms and phrases, in a thread if the estimated cost is high."""
        if max(state.messages, _LEAF_POSTINGS) * term_count <= _INLINE_POSTINGS:
            return function(*args, **kwargs)
        return await self._threads.run(function, *args, **kwargs)

    async def _read_frequencies(
        self, searcher: tantivy.Searcher, user_id: str, state: _UserState, parts: Sequence[Leaf | SpeakerBoost]
    ) -> list[int]:
        """Return, for each term and each speaker boost, the number of matching messages of a user."""
        frequencies = self._frequencies.get((user_id, state), {})
        if missing := [part for part in parts if part not in frequencies]:
            counts = await self._run_search(state, len(missing), _count_frequencies, searcher, user_id, missing)
            fresh = dict(zip(missing, counts, strict=True))
            frequencies = {**frequencies, **fresh}
            self._frequencies[user_id, state] = frequencies if len(frequencies) <= _CACHED_FREQUENCIES else fresh
        return [frequencies[part] for part in parts]

    async def _find_window_start(
        self, searcher: tantivy.Searcher, user_id: str, state: _UserState, message_filter: Filter
    ) -> int | None:
        """Return the start time of a window's newest half; None if all filtered messages fit into the window."""
        key = _WindowKey(user_id, state, message_filter)
        if key not in self._windows:
            admitted = build_intersection_query([build_user_query(user_id), *build_filter_queries(message_filter)])
            self._windows[key] = await self._threads.run(_find_newest_half_start, searcher, admitted)
        return self._windows[key]

    def _read_state(self, user_id: str) -> _UserState:
        result = self._searcher.search(build_user_query(user_id), limit=1, order_by_field="seq")
        latest = next((sequence for sequence, _ in result.hits), 0)
        return _UserState(int(result.count), latest)  # type: ignore[attr-defined]  # the engine's stub leaves it out

    def _read_commit_id(self) -> tuple[int, int] | None:
        """Return an identifier of the latest commit: inode and mtime of the file that each commit replaces."""
        try:
            stat = self._meta.stat()
        except FileNotFoundError:
            return self._committed
        return stat.st_ino, stat.st_mtime_ns


def _search_snapshot(
    searcher: tantivy.Searcher, search: LexicalSearch, *, matches_max: int, has_newer: bool
) -> list[LexicalHit]:
    """Search a snapshot, which may contain versions that were added after the first page was read."""
    query, (applied, weights, window), user = search.query, search.ranking, build_user_query(search.user_id)
    conditions = list(build_filter_queries(search.filter))
    if has_newer:
        conditions.append(build_range_query("seq", maximum=applied))
    if query.has_uniform_score:
        matching = build_intersection_query([build_matching_query(query, user), *conditions])
        return find_newest_hits(searcher, matching, sum(weights, start=0.0), search.start, search.limit)
    if window:
        conditions.append(build_window_query(query, weights, window, user))
    ranking = build_intersection_query([build_ranking_query(query, weights, user), *conditions])
    return find_ranked_hits(
        searcher, ranking, matches_max, search.start, search.limit, uses_class_weight=query.uses_class_weight
    )


def _find_newest_half_start(searcher: tantivy.Searcher, query: tantivy.Query) -> int | None:
    """Return the start time of a window's newest half; None if all matches of the query fit into the window."""
    return find_nth_newest(searcher, query, WINDOW // 2) if count_matches(searcher, query) > WINDOW else None


def _count_frequencies(searcher: tantivy.Searcher, user_id: str, parts: Sequence[Leaf | SpeakerBoost]) -> list[int]:
    user = build_user_query(user_id)
    queries = [build_leaf_query(part) if isinstance(part, Leaf) else build_boost_query(part) for part in parts]
    return [count_matches(searcher, build_intersection_query([user, query])) for query in queries]
