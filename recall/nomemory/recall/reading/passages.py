"""The best passages of a long message: the sentences that share most with what is asked, and what follows them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from nomemory.text.sentences import sentences
from nomemory.text.terms import terms

WHOLE: Final = 600
"""Characters of a message that is shown whole. Of a longer one, passages of as many in all are shown."""
_SENTENCE: Final = 400
"""Characters of a stretch without the end of a sentence, such as code or a table, that is not cut."""

Span = tuple[int, int]


def passages(content: str, asked: str, room: int = WHOLE) -> tuple[str, ...]:
    """Return stretches of a text, verbatim and in its order, of at most `room` characters in all.

    A text that fits is one stretch. Where nothing in it shares a word with what is asked, its beginning is returned.
    """
    if len(content) <= room:
        return (content,)
    spans = _spans(content)
    wanted = terms(asked)
    shared = [len(wanted & terms(content[start:end])) for start, end in spans]
    chosen = _chosen(spans, shared, room) or {0}
    return tuple(content[start:end][:room] for start, end in _joined([spans[at] for at in sorted(chosen)]))


def _spans(content: str) -> list[Span]:
    """Return where the sentences stand, each up to the next one; what has no end is cut."""
    starts = [0, *(one.start for one in sentences(content))]
    bounds = sorted({*starts, len(content)})
    return [(at, min(at + _SENTENCE, end)) for start, end in pairwise(bounds) for at in range(start, end, _SENTENCE)]


def _chosen(spans: Sequence[Span], shared: Sequence[int], room: int) -> set[int]:
    """Choose sentences while there is room: the best first, and after each the one that follows it."""
    best_first = sorted(range(len(spans)), key=lambda at: (-shared[at], at))
    chosen: set[int] = set()
    for at in [near for best in best_first for near in (best, best + 1)]:
        length = spans[at][1] - spans[at][0] if at < len(spans) else room + 1
        if at not in chosen and length <= room:
            chosen.add(at)
            room -= length
    return chosen


def _joined(spans: Sequence[Span]) -> list[Span]:
    """Join what stands side by side."""
    joined: list[Span] = []
    for start, end in spans:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
