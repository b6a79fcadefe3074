"""The protocol of a lexical index.

An index may follow the message log with a lag, or be part of the database of the message log and never lag. The methods
are coroutines, because an index may be on another host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from nomemory.server.message import LoggedMessage
from nomemory.server.message_filter import Filter
from nomemory.server.search.grammar.tree import Query
from nomemory.server.search.lexical.window import RankingWindow

if TYPE_CHECKING:  # the process that writes the index does not need numpy
    import numpy as np
    from numpy.typing import NDArray


class FrozenRanking(NamedTuple):
    """The state of a user's messages that a ranked listing keeps for all of its pages.

    Attributes:
        applied_sequence: the sequence number up to which the index contains every change of the user.
        weights: the weight of each term and phrase of the query, then of each speaker boost.
        window: the matches that are ranked; None if all matches are ranked.
    """

    applied_sequence: int
    weights: tuple[float, ...]
    window: RankingWindow | None = None


class RankPosition(NamedTuple):
    """A position in a ranked listing, before the hits with this score and timestamp."""

    score: float
    ts_us: int


@dataclass(frozen=True, slots=True)
class LexicalSearch:
    """A search for one page of hits.

    Attributes:
        ranking: the result of `LexicalIndex.freeze` at the first page. Versions after
            `ranking.applied_sequence` do not match.
        filter: an additional condition on the messages.
        start: the position at which the page starts; None for the first page.
        limit: the number of hits to return. More hits are returned if the last hits tie, and fewer at the end of the
            listing.
    """

    user_id: str
    query: Query
    ranking: FrozenRanking
    filter: Filter
    start: RankPosition | None
    limit: int


class LexicalHit(NamedTuple):
    """A message version that matches a search.

    Attributes:
        sequence: the sequence number in the message log, which may have deleted the version since.
        message: the message if the index is part of the message log, otherwise None.
    """

    score: float
    ts_us: int
    sequence: int
    message: LoggedMessage | None = None


@dataclass(frozen=True, slots=True)
class Posting:
    """The number of a user's messages that contain a term, and the sequence numbers of the versions that contain it.

    `sequences` is empty if the frequency exceeds the requested limit.
    """

    count: int
    sequences: NDArray[np.int64]


class IndexUnusableError(Exception):
    """The index cannot be read and must be rebuilt from the message log."""


class LexicalIndex(Protocol):
    """Searches one user's messages for terms and phrases. Use an index from one event loop only.

    An index stores no state between pages. Call `freeze` for the first page of a listing and pass its result to
    `search` for every page.
    """

    @property
    def can_lag(self) -> bool:
        """Whether the index can lag behind the message log.

        Callers need `read_applied_sequence` only for an index that can lag.
        """

    async def read_applied_sequence(self, user_id: str) -> int:
        """Return the sequence number up to which the index contains every change of a user.

        This sequence number may be greater than the sequence number of the user's latest change.
        """

    async def freeze(self, user_id: str, query: Query, message_filter: Filter) -> FrozenRanking:
        """Return the weights of a query and the window of its matches, for the current state.

        The result depends on this user's messages only. Weights are multiples of 1/64, so that sums are exact in 32
        bits. A query without terms has no weights.

        Raises:
            Fault: INDEX_UNAVAILABLE.
        """

    async def search(self, search: LexicalSearch) -> list[LexicalHit]:
        """Return the best hits from the position `search.start` on, by score and `ts` descending.

        A score is the sum of the weights of the matching terms, phrases and boosts, multiplied by the weight of the
        message class if `Query.uses_class_weight`. If `Query.has_uniform_score`, the score is the sum of all weights.

        Hits with the same score and `ts` are always returned together, so there may be more than `search.limit` hits.
        Fewer hits than `search.limit` are returned only at the end of the listing. A limit below 1 returns no hits.

        Raises:
            Fault: INDEX_UNAVAILABLE.
        """

    async def count_messages(self, user_id: str, message_filter: Filter) -> int:
        """Count the messages of a user that pass a filter.

        Raises:
            Fault: INDEX_UNAVAILABLE.
        """

    async def read_postings(
        self, user_id: str, terms: Sequence[str], message_filter: Filter, max_sequences: int
    ) -> list[Posting]:
        """Return the posting of each term; omit the sequence numbers of terms in more than `max_sequences` messages.

        Raises:
            Fault: INDEX_UNAVAILABLE.
        """

    async def refresh(self) -> None:
        """Make the latest commit visible to searches. If there is no new commit, `refresh` does nothing.

        Raises:
            Fault: INDEX_UNAVAILABLE: the commit cannot be read. After this fault, searches continue to use the previous
                commit.
        """

    async def close(self) -> None:
        """Close the index."""


class LexicalProgress(Protocol):
    """The progress of the process that writes the lexical index."""

    @property
    def applied_sequence(self) -> int:
        """The sequence number up to which all changes are committed."""

    async def erase_deleted(self) -> None:
        """Erase the content of deleted messages from the files of the index, up to the last applied deletion."""
