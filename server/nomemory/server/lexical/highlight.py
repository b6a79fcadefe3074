"""Highlights: where in a message a query matched, and the snippet that shows most of it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nomemory.server.lexical.highlight_plain import places, plain
from nomemory.server.lexical.query import Leaf, Query, Stream
from nomemory.text.analysis import Token, terms, tokenise


class Span(NamedTuple):
    """A half-open stretch of the content, in code points."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Highlight:
    """The matches, in order, none touching another; and the snippet. `truncated`: there may be more matches."""

    spans: tuple[Span, ...]
    snippet: Span
    truncated: bool


@dataclass(frozen=True, slots=True)
class Extent:
    """How far a highlight goes: the characters of a content that are looked at, and the spans that are given."""

    chars: int
    spans: int


def highlight(content: str, query: Query, snippet_chars: int, extent: Extent) -> Highlight:
    """Find what the query asks for, never what it refuses. O(extent · phrases), offsets are those of the original.

    The snippet has at most `snippet_chars` (at least 1) characters. It is all of a short content, else the stretch
    with the most of the given spans, the first of several, cut between tokens where that is possible.
    """
    found = _merged(sorted(_found(content, query.leaves, extent.chars)))
    spans = found[: extent.spans]
    snippet = _snippet(content, spans, snippet_chars, extent.chars)
    return Highlight(tuple(spans), snippet, len(content) > extent.chars or len(found) > len(spans))


def _found(content: str, leaves: Sequence[Leaf], chars: int) -> Iterator[Span]:
    """Return what matches within the first characters, in any order."""
    has_phrases = any(leaf.stream is Stream.CHARS for leaf in leaves)
    normal = None if has_phrases or len(content) > chars else plain(content)
    if normal is None:
        return _matches(_whole_tokens(content, chars), leaves)
    return (Span(start, end) for start, end in places(normal, {leaf.tokens[0] for leaf in leaves}))


def _whole_tokens(content: str, chars: int) -> list[Token]:
    """Return the tokens that end before the content is cut off: one at the cut might go on behind it."""
    tokens = tokenise(content[:chars])
    return tokens[:-1] if len(content) > chars and tokens and tokens[-1].end == chars else tokens


def _matches(tokens: Sequence[Token], leaves: Sequence[Leaf]) -> Iterator[Span]:
    ranking = {leaf.tokens[0] for leaf in leaves if leaf.stream is Stream.TERMS}
    if ranking:
        yield from (Span(term.start, term.end) for term in terms(tokens) if term.text in ranking)
    texts = [token.text for token in tokens]
    for leaf in leaves:
        if leaf.stream is Stream.CHARS:
            for first in _occurrences(texts, leaf.tokens):
                yield Span(tokens[first].start, tokens[first + len(leaf.tokens) - 1].end)


def _occurrences(texts: Sequence[str], phrase: tuple[str, ...]) -> Iterator[int]:
    """Return where a phrase begins, overlapping itself too: Knuth, Morris and Pratt's search, O(texts + phrase)."""
    if not set(texts).issuperset(phrase):
        return
    borders = _borders(phrase)
    matched = 0
    for place, text in enumerate(texts):
        while matched and (matched == len(phrase) or phrase[matched] != text):
            matched = borders[matched - 1]
        matched += phrase[matched] == text
        if matched == len(phrase):
            yield place - len(phrase) + 1


def _borders(phrase: tuple[str, ...]) -> list[int]:
    """Return for each prefix of a phrase how long a part it both begins and ends with."""
    borders = [0] * len(phrase)
    length = 0
    for place in range(1, len(phrase)):
        while length and phrase[length] != phrase[place]:
            length = borders[length - 1]
        length += phrase[length] == phrase[place]
        borders[place] = length
    return borders


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Join sorted spans that overlap or touch."""
    merged: list[Span] = []
    for span in spans:
        if merged and span.start <= merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged


def _snippet(content: str, spans: Sequence[Span], chars: int, looked_at: int) -> Span:
    if len(content) <= chars:
        return Span(0, len(content))
    shown = _densest(spans, chars)
    if shown.end - shown.start >= chars:
        return Span(shown.start, shown.start + chars)
    start = max(0, min(shown.start - (chars - (shown.end - shown.start)) // 2, len(content) - chars))
    window = Span(start, start + chars)
    return _between_tokens(_near(content, window, looked_at), window, shown)


def _near(content: str, window: Span, looked_at: int) -> list[Span]:
    """Return where tokens stand, all those that begin or end in a window: no token reaches over a space."""
    if len(content) > looked_at:
        return [Span(token.start, token.end) for token in _whole_tokens(content, looked_at)]
    first, end = content.rfind(" ", 0, window.start) + 1, content.find(" ", window.end)
    tokens = tokenise(content[first : end if end >= 0 else len(content)])
    return [Span(first + token.start, first + token.end) for token in tokens]


def _densest(spans: Sequence[Span], chars: int) -> Span:
    """Return the stretch, beginning with a span, that holds the most whole ones."""
    ends = [span.end for span in spans]
    counts = [bisect_right(ends, span.start + chars) - place for place, span in enumerate(spans)]
    if not counts:
        return Span(0, 0)
    best = counts.index(max(counts))
    return Span(spans[best].start, spans[best + max(1, counts[best]) - 1].end)


def _between_tokens(tokens: Sequence[Span], window: Span, shown: Span) -> Span:
    """Narrow a window so that it cuts no token, but keep what is to be shown."""
    first = bisect_left(tokens, window.start, key=lambda token: token.start)
    last = bisect_right(tokens, window.end, key=lambda token: token.end) - 1
    if last < first:
        return window
    return Span(min(tokens[first].start, shown.start), max(tokens[last].end, shown.end))
