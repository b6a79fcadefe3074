"""The ranking window: the subset of messages that is ranked if a query has very many matches.

If more than about `WINDOW` messages match, half of the window consists of the messages with the rarest terms, as many
terms as fit. The other half consists of the newest messages. The window is selected for the first page of a listing.
Later pages use the window as a condition on messages, and therefore rank the same messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from nomemory.server.search.grammar.tree import Leaf, Query
from nomemory.server.search.lexical.idf import estimate_match_share

WINDOW: Final = 10_000
"""Maximum number of ranked messages. Messages with equal timestamps are not separated, so there may be more."""


class RankingWindow(NamedTuple):
    """The condition that a message contains one of the terms with the highest weights, or is at least as new as a time.

    Attributes:
        term_count: the number of terms that select messages, highest weights first.
        since_us: the start of the newest half of the window, in microseconds since the epoch.
    """

    term_count: int
    since_us: int


def exceeds_window(query: Query, frequencies: Sequence[int], message_count: int) -> bool:
    """Return whether the estimated number of matches exceeds the window.

    `frequencies` contains the document frequency of each term and phrase among the user's messages. `message_count` is
    the number of messages of the user.
    """
    if query.has_uniform_score or message_count <= WINDOW:
        return False
    shares = {leaf: frequency / message_count for leaf, frequency in zip(query.leaves, frequencies, strict=True)}
    return message_count * estimate_match_share(query.root, shares) > WINDOW


def count_window_terms(query: Query, weights: Sequence[float], frequencies: Sequence[int]) -> int:
    """Return the number of terms, highest weights first, whose messages fit into half of the window."""
    frequency = dict(zip(query.leaves, frequencies, strict=True))
    cumulative = accumulate(frequency[leaf] for leaf in select_window_terms(query, weights, len(query.leaves)))
    return sum(messages <= WINDOW // 2 for messages in cumulative)


def select_window_terms(query: Query, weights: Sequence[float], term_count: int) -> list[Leaf]:
    """Return the `term_count` terms and phrases with the highest weights."""
    weight = dict(zip(query.leaves, weights, strict=False))
    return sorted(query.leaves, key=weight.__getitem__, reverse=True)[:term_count]
