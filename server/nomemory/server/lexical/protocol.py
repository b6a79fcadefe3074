"""The lexical index as the rest of the server sees it.

It may be a follower of the log, with a view that lags behind, or part of the log's own database, and up to date with
every write. It may be in this process or across a network: calls are awaited, and one that answers at once never
suspends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from nomemory.server.lexical.query.tree import Query
from nomemory.server.message import Filter, LoggedMessage

if TYPE_CHECKING:  # the process that writes the index has no use for it
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class RankPosition:
    """A place in a ranked listing: everything that is worse, or equal and not newer, comes after it."""

    score: float
    ts_us: int


@dataclass(frozen=True, slots=True)
class WordSearch:
    """A page of a search: its query, with the weights that `weigh` gave, and what else a version has to be.

    `pinned` is the greatest sequence of a version, and `after` where the page begins; None: with the best.
    """

    user_id: str
    query: Query
    weights: Sequence[float]
    narrowed: Filter
    pinned: int
    after: RankPosition | None
    limit: int


class LexicalHit(NamedTuple):
    """A version of a message that matches. `sequence` resolves in the log, or is gone there.

    `message` is set where the index is part of the log: there is nothing to resolve then.
    """

    score: float
    ts_us: int
    sequence: int
    message: LoggedMessage | None = None


class Weighing(NamedTuple):
    """What a listing is frozen with: up to where the view contains everything of the user, and the weights then."""

    applied: int
    weights: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Posting:
    """In how many of a user's messages a term stands, and in which versions, unless those are too many."""

    count: int
    sequences: NDArray[np.int64]


class IndexUnusableError(Exception):
    """The index cannot be read: it has to be built anew from the log."""


class LexicalIndex(Protocol):
    """Finds words and phrases in one user's messages. Belongs to one event loop.

    A listing is frozen by its caller: `weigh` at its first page, then `search` with what it gave for every page. So an
    engine keeps nothing between pages.
    """

    @property
    def lags(self) -> bool:
        """Whether the view may lag behind the log. Where it never does, nobody needs to ask `applied`."""

    async def applied(self, user_id: str) -> int:
        """Return the sequence up to which this reader's view contains every change of this user.

        It may be beyond the user's latest change.
        """

    async def weigh(self, user_id: str, query: Query) -> Weighing:
        """Return what `applied` does, and the weight of each leaf and each sign of the query.

        They are made from this user's messages alone.

        First those of `Query.leaves`, in their order, then those of `Query.signs`, of which one at most is not 0.
        Weights are multiples of 1/64, so that sums are exact in 32 bits and do not depend on their order. Where time
        alone orders (`Query.is_uniform`), a score is the sum of all weights; elsewhere it is the sum of those of what
        is found, times the worth of the message's form. A query that asks for nothing has no leaves.

        Raises:
            Fault: INDEX_UNAVAILABLE.
        """

    async def search(self, asked: WordSearch) -> list[LexicalHit]:
        """Return the best versions with `sequence <= pinned`, by score and `ts` descending, from `after` on.

        At least `limit` if there are as many; hits of equal score and `ts` are never cut apart, so there may be
        more. Hits exactly at `after` are included: who pages knows which of them it has delivered. A `limit` below 1
        gives nothing.

        Raises:
            Fault: INDEX_UNAVAILABLE.
        """

    async def total(self, user_id: str, narrowed: Filter) -> int:
        """Count the messages of a user that a filter admits.

        Raises:
            Fault: INDEX_UNAVAILABLE.
        """

    async def postings(self, user_id: str, terms: Sequence[str], narrowed: Filter, most: int) -> list[Posting]:
        """Return, for each term of the analysis, where it stands; the versions only where they are at most `most`.

        Raises:
            Fault: INDEX_UNAVAILABLE.
        """

    async def refresh(self) -> None:
        """Take the latest commit into view. Cheap if there is none, and nothing to do where the view never lags.

        Raises:
            Fault: INDEX_UNAVAILABLE if it cannot be read; the view stays as it was.
        """

    async def close(self) -> None:
        """Close the index."""


class LexicalProgress(Protocol):
    """The writing side of the lexical index, whichever process it is in."""

    @property
    def applied(self) -> int:
        """The sequence up to which everything is committed."""

    async def wipe_removed(self) -> None:
        """Take everything out of the index's files that was removed and applied by now."""


_EVERYTHING: Final = 2**63 - 1


class WordsInLog:
    """Implements LexicalProgress of an index that is part of the log."""

    @property
    def applied(self) -> int:
        """Beyond every sequence: what the log has committed is searchable."""
        return _EVERYTHING

    async def wipe_removed(self) -> None:
        """Do nothing: what the log takes out of its tables is out of this index."""
