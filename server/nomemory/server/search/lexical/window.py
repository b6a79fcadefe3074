"""The window of a ranked search: the messages that are ranked where very many match.

Where more than about `WINDOW` messages match, one half of the window has those with the terms that weigh most, as many
terms as together are in no more messages than that. The other half has the newest messages. A window is chosen at the
first page and is a condition on messages from then on, so later pages rank the same messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from nomemory.server.search.grammar.tree import Leaf, Query
from nomemory.server.search.lexical.idf import estimated_share

WINDOW: Final = 10_000
"""Number of messages that a search ranks at most, but for messages of the same microsecond, which are not separated."""


class RankingWindow(NamedTuple):
    """A condition: a message has one of the terms that weigh most, or was sent at or after a time.

    Attributes:
        terms: number of those terms.
        since_us: the time.
    """

    terms: int
    since_us: int


def exceeds_window(query: Query, frequencies: Sequence[int], messages: int) -> bool:
    """Return whether about more messages match than a window holds.

    Args:
        query: the query.
        frequencies: the document frequency of each leaf within the user.
        messages: number of the user's messages.
    """
    if query.is_uniform or messages <= WINDOW:
        return False
    shares = {leaf: frequency / messages for leaf, frequency in zip(query.leaves, frequencies, strict=True)}
    return messages * estimated_share(query.root, shares) > WINDOW


def count_window_terms(query: Query, weights: Sequence[float], frequencies: Sequence[int]) -> int:
    """Return how many of the terms that weigh most are together in at most half a window of messages."""
    frequency = dict(zip(query.leaves, frequencies, strict=True))
    cumulated = accumulate(frequency[leaf] for leaf in window_terms(query, weights, len(query.leaves)))
    return sum(messages <= WINDOW // 2 for messages in cumulated)


def window_terms(query: Query, weights: Sequence[float], terms: int) -> list[Leaf]:
    """Return a number of terms, those that weigh most."""
    weight = dict(zip(query.leaves, weights, strict=False))
    return sorted(query.leaves, key=weight.__getitem__, reverse=True)[:terms]
