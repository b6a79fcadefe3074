"""Look up the postings of terms in one user's messages.

One query looks up several terms: each term sets its own bit of the score.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import tantivy
from numpy.typing import NDArray

from nomemory.server.search.lexical.protocol import Posting
from nomemory.server.search.lexical.tantivy.queries import (
    TERMS,
    build_bitmask_query,
    build_intersection_query,
    build_term_query,
    build_unscored_query,
)

_TERMS_PER_PASS: Final = 24
"""Terms per pass. Each term scores a power of two; the engine's 32-bit floats represent sums of 24 of them exactly."""

_RARE: Final = 1000
"""Maximum document frequency over all users up to which reading all postings costs less than intersecting first."""

_FEW: Final = 1024
"""Maximum number of messages of a user for which common terms are also looked up in one pass."""

_NONE: Final = np.array([], dtype=np.int64)

_OVERHEAD_BYTES: Final = 500
"""Estimated memory of a posting, in addition to its arrays."""


@dataclass(frozen=True, slots=True)
class TimedPosting:
    """A posting with the timestamps of its versions.

    Searches whose time ranges differ only in their end can share a cached posting.
    """

    count: int
    sequences: NDArray[np.int64]
    ts_us: NDArray[np.int64]

    @property
    def memory_bytes(self) -> int:
        """The estimated memory of the posting, in bytes."""
        return _OVERHEAD_BYTES + self.sequences.nbytes + self.ts_us.nbytes

    @property
    def posting(self) -> Posting:
        """The posting without timestamps, for all messages."""
        return Posting(self.count, self.sequences)

    def clip_posting(self, until_us: int | None) -> Posting | None:
        """Return the posting of the messages before a time; None if the required sequence numbers are not stored."""
        if until_us is None:
            return self.posting
        if len(self.sequences) < self.count:
            return None
        sequences = self.sequences[self.ts_us < until_us]
        return Posting(len(sequences), sequences)


class _LookupPass(NamedTuple):
    """The matches of one lookup query. Bit n of a message's mask is set if the message contains term n."""

    terms: Sequence[str]
    masks: NDArray[np.int64]
    addresses: Sequence[tantivy.DocAddress]


class TermLookup:
    """Looks up terms in a snapshot of the index.

    Args:
        searcher: the snapshot of the index.
        conditions: queries that together select the messages of a user that pass a filter.
        message_count: the number of messages of the user in the snapshot.
    """

    def __init__(self, searcher: tantivy.Searcher, conditions: Sequence[tantivy.Query], message_count: int) -> None:
        self._searcher = searcher
        self._conditions = conditions
        self._message_count = message_count

    def read_postings(self, terms: Sequence[str], max_sequences: int) -> dict[str, TimedPosting]:
        """Return the posting of each term; omit the sequence numbers of terms in more than `max_sequences` messages."""
        frequencies = {term: self._searcher.doc_freq(TERMS, term) for term in terms}  # including other users
        rare = {term: frequency for term, frequency in frequencies.items() if frequency <= _RARE}
        common = [term for term in terms if term not in rare]
        passes = [
            self._look_up_rare_terms(group, sum(map(rare.__getitem__, group))) for group in _group_terms(list(rare))
        ]
        if self._message_count <= _FEW:
            return self._split_passes([*passes, *map(self._look_up_common_terms, _group_terms(common))], max_sequences)
        single = {term: self._look_up_single_term(term, max_sequences) for term in common}
        passes += [lookup for lookup in single.values() if isinstance(lookup, _LookupPass)]
        frequent = {term: lookup for term, lookup in single.items() if isinstance(lookup, TimedPosting)}
        return self._split_passes(passes, max_sequences) | frequent

    def _look_up_rare_terms(self, terms: Sequence[str], expected_matches: int) -> _LookupPass:
        """Look up rare terms, which have about `expected_matches` matches in total."""
        return self._run_pass(
            terms,
            build_intersection_query([*self._conditions, build_bitmask_query(list(map(build_term_query, terms)))]),
            expected_matches,
        )

    def _look_up_common_terms(self, terms: Sequence[str]) -> _LookupPass:
        """Look up common terms in one query, for a user with few messages."""
        queries = [build_intersection_query([*self._conditions, build_term_query(term)]) for term in terms]
        return self._run_pass(terms, build_bitmask_query(queries), self._message_count)

    def _look_up_single_term(self, term: str, max_sequences: int) -> _LookupPass | TimedPosting:
        """Look up one common term in a separate query, for a user with many messages."""
        result = self._searcher.search(
            build_unscored_query(build_intersection_query([*self._conditions, build_term_query(term)])),
            limit=max_sequences,
        )
        count = int(result.count)  # type: ignore[attr-defined]  # the engine's stub leaves it out
        if count > max_sequences:
            return TimedPosting(count, _NONE, _NONE)
        return _LookupPass([term], np.ones(count, dtype=np.int64), [address for _, address in result.hits])

    def _run_pass(self, terms: Sequence[str], query: tantivy.Query, expected_matches: int) -> _LookupPass:
        limit = max(1, min(expected_matches, self._message_count))
        hits = self._searcher.search(query, limit=limit, count=False).hits
        if len(hits) == limit < self._message_count:  # there may be more than expected
            hits = self._searcher.search(query, limit=self._message_count, count=False).hits
        masks = np.array([score for score, _ in hits]).astype(np.int64)
        return _LookupPass(terms, masks, [address for _, address in hits])

    def _split_passes(self, passes: Sequence[_LookupPass], max_sequences: int) -> dict[str, TimedPosting]:
        """Convert the matches of lookup queries to postings.

        Each field is read in one call, because each call has a fixed cost.
        """
        addresses = list(chain.from_iterable(lookup.addresses for lookup in passes))
        sequences = np.array(self._searcher.fast_field_values("seq", addresses), dtype=np.int64)
        times = np.array(self._searcher.fast_field_values("ts", addresses), dtype=np.int64)
        postings: dict[str, TimedPosting] = {}
        start = 0
        for lookup in passes:
            end = start + len(lookup.addresses)
            postings |= _build_postings(lookup, sequences[start:end], times[start:end], max_sequences)
            start = end
        return postings


def _group_terms(terms: Sequence[str]) -> Iterator[Sequence[str]]:
    return (terms[at : at + _TERMS_PER_PASS] for at in range(0, len(terms), _TERMS_PER_PASS))


def _build_postings(
    lookup: _LookupPass, sequences: NDArray[np.int64], times: NDArray[np.int64], max_sequences: int
) -> Mapping[str, TimedPosting]:
    bits = (lookup.masks >> np.arange(len(lookup.terms))[:, np.newaxis] & 1).astype(np.bool_)
    counts = bits.sum(axis=1).tolist()
    return {
        term: TimedPosting(count, sequences[has_term], times[has_term])
        if count <= max_sequences
        else TimedPosting(count, _NONE, _NONE)
        for term, count, has_term in zip(lookup.terms, counts, bits, strict=True)
    }
