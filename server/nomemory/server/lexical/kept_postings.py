"""A cache of postings: a search asks where many terms stand, and a recall asks for much of it again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Final

from nomemory.server.lexical.protocol import Posting

_OVERHEAD: Final = 500
"""Bytes that postings take in memory beside what they hold, about."""

_NOTHING: Final[Mapping[str, Posting]] = {}


class KeptPostings:
    """Keeps the postings that were looked up last, shelf by shelf.

    Args:
        most_bytes: about how much memory they may take together.
    """

    def __init__(self, most_bytes: int) -> None:
        self._shelves: OrderedDict[Hashable, dict[str, Posting]] = OrderedDict()
        self._room = most_bytes

    def of(self, shelf: Hashable) -> Mapping[str, Posting]:
        """Return what is kept of a shelf, by term. The shelf says in what the terms were looked up."""
        kept = self._shelves.get(shelf)
        if kept is None:
            return _NOTHING
        self._shelves.move_to_end(shelf)
        return kept

    def keep(self, shelf: Hashable, fresh: Mapping[str, Posting]) -> None:
        """Keep more of a shelf, none of which is kept. What was used least lately goes first."""
        self._shelves.setdefault(shelf, {}).update(fresh)
        self._shelves.move_to_end(shelf)
        self._room -= sum(map(_weight, fresh.values()))
        while self._room < 0:
            self._room += self._drop_oldest()

    def _drop_oldest(self) -> int:
        """Drop the oldest shelf, or the oldest of the only one; return how many bytes it took."""
        shelf = next(iter(self._shelves))
        if len(self._shelves) > 1:
            return sum(map(_weight, self._shelves.pop(shelf).values()))
        terms = self._shelves[shelf]
        return _weight(terms.pop(next(iter(terms))))


def _weight(posting: Posting) -> int:
    return _OVERHEAD + posting.sequences.nbytes
