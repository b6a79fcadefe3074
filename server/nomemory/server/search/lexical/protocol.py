"""The protocol of a lexical index.

An index may follow the message log with a lag, or be part of the log's own database and never lag. It may be in this
process or across a network, so its calls are awaited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from nomemory.server.message import LoggedMessage
from nomemory.server.message_filter import Filter
from nomemory.server.search.grammar.tree import Query
from nomemory.server.search.lexical.window import RankingWindow

if TYPE_CHECKING:  # the process that writes the index has no use for it
    import numpy as np
    from numpy.typing import NDArray


class FrozenRanking(NamedTuple):
    """The state of a user's messages that a ranked listing keeps for all of its pages.

    Attributes:
        applied: the sequence up to which the index contains every change of the user.
        weights: the weight of each leaf of the query, then of each speaker boost.
        window: the matches that are ranked; None: all of them.
    """

    applied: int
    weights: tuple[float, ...]
    window: RankingWindow | None = None


class RankPosition(NamedTuple):
    """A position in a ranked listing, before the hits with this score and time."""

    score: float
    ts_us: int


@dataclass(frozen=True, slots=True)
class LexicalSearch:
    """A search for one page.

    Attributes:
        user_id: whose messages are searched.
        query: the parsed query.
        ranking: what `LexicalIndex.freeze` returned at the first page. Versions after `ranking.applied` do not match.
        filter: a further condition on the messages.
        start: where the page begins; None: with the best hit.
        limit: the least number of hits to return, if there are as many.
    """

    user_id: str
    query: Query
    ranking: FrozenRanking
    filter: Filter
    start: RankPosition | None
    limit: int


class LexicalHit(NamedTuple):
    """A version of a message that matches.

    Attributes:
        score: its score.
        ts_us: its time.
        sequence: its sequence in the log, which may have deleted it since.
        message: the message itself where the index is part of the log, else None.
    """

    score: float
    ts_us: int
    sequence: int
    message: LoggedMessage | None = None


@dataclass(frozen=True, slots=True)
class Posting:
    """The document frequency of a term within a user, and the sequences of the versions that have it.

    There are no sequences where the frequency exceeds the limit that was asked for.
    """

    count: int
    sequences: NDArray[np.int64]


class IndexUnusableError(Exception):
    """The index cannot be read: it has to be built anew from the log."""


class LexicalIndex(Protocol):
    """Finds words and phrases in one user's messages. Belongs to one event loop.

    An index keeps nothing between the pages of a listing: `freeze` is called at its first page, and what it returns is
    passed to `search` for every page.
    """

    @property
    def lags(self) -> bool:
        """Whether the index may lag behind the log. Where it never does, nobody needs to call `applied`."""

    async def applied(self, user_id: str) -> int:
        """Return the sequence up to which the index contains every change of a user.

        It may be greater than the sequence of the user's latest change.
        """

    async def freeze(self, user_id: str, query: Query, message_filter: Filter) -> FrozenRanking:
        """Return the weights of a query and the window of its matches, as of now.

        They depend on this user's messages alone. Weights are multiples of 1/64, so that sums are exact in 32 bits. A
        query without leaves has no weights.

        Raises:
            Fault: INDEX_UNAVAILABLE.
        """

    async def search(self, search: LexicalSearch) -> list[LexicalHit]:
        """Return the best hits from `search.start` on, by score and `ts` descending.

        A score is the sum of the weights of the leaves and boosts that a message has, times the weight of its class
        where `Query.by_class`. Where `Query.is_uniform` it is the sum of all weights.

        Hits with the same score and `ts` are never separated, so there may be more than `search.limit`. Fewer than
        `search.limit` means that there are no more. A limit below 1 returns nothing.

        Raises:
            Fault: INDEX_UNAVAILABLE.
        """

    async def total(self, user_id: str, message_filter: Filter) -> int:
        """Count the messages of a user that a filter admits.

        Raises:
            Fault: INDEX_UNAVAILABLE.
        """

    async def postings(
        self, user_id: str, terms: Sequence[str], message_filter: Filter, max_sequences: int
    ) -> list[Posting]:
        """Return the posting of each term, without the sequences of terms in more than `max_sequences` messages.

        Raises:
            Fault: INDEX_UNAVAILABLE.
        """

    async def refresh(self) -> None:
        """Take the latest commit into view. Cheap if there is none, and nothing to do where the index never lags.

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

    async def erase_deleted(self) -> None:
        """Remove from the index's files everything that was deleted and applied by now."""
