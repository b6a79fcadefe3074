"""In how many messages of all users terms stand, about: it serves to choose how they are looked up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import tantivy

_KEPT: Final = 65_536
_GROWTH: Final = 1.25
"""How many times as many messages an index may have before all is counted anew."""


class TermFrequencies:
    """Remembers how many messages have a term, while the index stays about as large.

    Args:
        field: which holds the terms.
    """

    def __init__(self, field: str) -> None:
        self._field = field
        self._kept: dict[str, int] = {}
        self._messages = 0

    def of(self, searcher: tantivy.Searcher, terms: Sequence[str]) -> Mapping[str, int]:
        """Return the frequency of each term, in this view or in an earlier one."""
        messages = searcher.num_docs
        if not self._messages <= messages <= self._messages * _GROWTH or len(self._kept) > _KEPT:
            self._kept.clear()
            self._messages = messages
        for term in terms:
            if term not in self._kept:
                self._kept[term] = searcher.doc_freq(self._field, term)
        return {term: self._kept[term] for term in terms}
