"""Where terms stand in a user's messages: many are looked up in one pass, and told apart by their scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import tantivy
from numpy.typing import NDArray

from nomemory.server.lexical.protocol import Posting
from nomemory.server.lexical.tantivy.query import TERMS, all_of, of_marks, of_term, unscored

_AT_ONCE: Final = 24
"""Terms in one pass. Each scores a power of two, and 32 bits of the engine's hold such a sum exactly."""

_RARE: Final = 1000
"""A term in no more messages, of all users, is walked through as a whole: to look into a user's costs more."""

_FEW: Final = 1024
"""Of a user with no more messages common terms are looked up in one pass, too: it finds no more than these."""

_NOWHERE: Final = np.array([], dtype=np.int64)


class _Pass(NamedTuple):
    """What a pass found: for each message a number, whose bits say which of the terms stand there."""

    terms: Sequence[str]
    marks: NDArray[np.int64]
    addresses: Sequence[tantivy.DocAddress]


class TermLookup:
    """Looks terms up in one view of the index.

    Args:
        searcher: the view.
        mine: what a message has to match: it is the user's, and a filter admits it.
        messages: how many messages the user has in this view.
    """

    def __init__(self, searcher: tantivy.Searcher, mine: Sequence[tantivy.Query], messages: int) -> None:
        self._searcher = searcher
        self._mine = mine
        self._messages = messages

    def postings(self, terms: Sequence[str], most: int) -> dict[str, Posting]:
        """Return where each term stands; the versions only where they are at most `most`."""
        in_all = {term: self._searcher.doc_freq(TERMS, term) for term in terms}
        rare = {term: number for term, number in in_all.items() if number <= _RARE}
        common = [term for term in terms if term not in rare]
        passes = [self._rare(some, sum(map(rare.__getitem__, some))) for some in _parted(list(rare))]
        if self._messages <= _FEW:
            return self._told_apart([*passes, *map(self._common, _parted(common))], most)
        alone = {term: self._alone(term, most) for term in common}
        passes += [one for one in alone.values() if isinstance(one, _Pass)]
        many = {term: one for term, one in alone.items() if isinstance(one, Posting)}
        return self._told_apart(passes, most) | many

    def _rare(self, terms: Sequence[str], likely: int) -> _Pass:
        """Look up terms that stand in about so many messages of all users together."""
        return self._marked(terms, all_of([*self._mine, of_marks(list(map(of_term, terms)))]), likely)

    def _common(self, terms: Sequence[str]) -> _Pass:
        """Look up terms of a user with few messages."""
        return self._marked(terms, of_marks([all_of([*self._mine, of_term(term)]) for term in terms]), self._messages)

    def _alone(self, term: str, most: int) -> _Pass | Posting:
        """Look up one term of a user with many messages."""
        found = self._searcher.search(unscored(all_of([*self._mine, of_term(term)])), limit=most)
        count = int(found.count)  # type: ignore[attr-defined]  # the engine's stub leaves it out
        if count > most:
            return Posting(count, _NOWHERE)
        return _Pass([term], np.ones(count, dtype=np.int64), [address for _, address in found.hits])

    def _marked(self, terms: Sequence[str], query: tantivy.Query, likely: int) -> _Pass:
        limit = max(1, min(likely, self._messages))
        hits = self._searcher.search(query, limit=limit, count=False).hits
        if len(hits) == limit < self._messages:  # there may be more than were thought
            hits = self._searcher.search(query, limit=self._messages, count=False).hits
        marks = np.array([score for score, _ in hits]).astype(np.int64)
        return _Pass(terms, marks, [address for _, address in hits])

    def _told_apart(self, passes: Sequence[_Pass], most: int) -> dict[str, Posting]:
        """Read the versions that all passes found at once: it costs as much for one as for many."""
        addresses = list(chain.from_iterable(one.addresses for one in passes))
        sequences = np.array(self._searcher.fast_field_values("seq", addresses), dtype=np.int64)
        ends = np.cumsum([len(one.addresses) for one in passes], dtype=np.int64)
        found: dict[str, Posting] = {}
        for one, versions in zip(passes, np.split(sequences, ends)[:-1], strict=True):  # nothing is beyond the last end
            found |= _postings(one, versions, most)
        return found


def _parted(terms: Sequence[str]) -> Iterator[Sequence[str]]:
    return (terms[at : at + _AT_ONCE] for at in range(0, len(terms), _AT_ONCE))


def _postings(one: _Pass, versions: NDArray[np.int64], most: int) -> Mapping[str, Posting]:
    bits = (one.marks >> np.arange(len(one.terms))[:, np.newaxis] & 1).astype(np.bool_)
    counts = bits.sum(axis=1).tolist()
    return {
        term: Posting(count, versions[standing] if count <= most else _NOWHERE)
        for term, count, standing in zip(one.terms, counts, bits, strict=True)
    }


_OVERHEAD: Final = 500
"""Bytes that a posting takes in memory beside what it holds, about."""


def memory_of(postings: Mapping[str, Posting]) -> int:
    """Return about how many bytes postings take in memory."""
    return sum(_OVERHEAD + posting.sequences.nbytes for posting in postings.values())
