"""Highlights: where in a message a query matched, and the snippet that shows most of it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import regex  # type: ignore[import-untyped]  # it ships without types

from nomemory.server.search.grammar.tree import Leaf, Query, Stream
from nomemory.text.analysis import Kind, Term, Token, terms, tokenise
from nomemory.text.normalisation import COMBINING, INVISIBLE, normalise

_MARKED = regex.compile(rf"[{COMBINING}{INVISIBLE}\u1100-\u11FF\u3099\u309A]", regex.V1)
"""What may trail a character, or be part of one that is spelled in parts: accents, invisibles, jamo, voicing marks."""

_CHUNK = regex.compile(r"\S+", regex.V1)
"""No token and no term reaches over a space."""

_END = "\n"
"""No token has it."""

_CHUNKS_KEPT = 8192
_KEPT_CHARS = 32
"""Longer chunks are seldom met again."""


def plain(text: str) -> str | None:
    """Return a text as it is compared, if each of its characters stands for itself; else None."""
    normal = normalise(text)
    return None if _MARKED.search(normal) else normal


def places(normal: str, wanted: Collection[str]) -> Iterator[tuple[int, int]]:
    """Return where the terms of a plain text are that are wanted, as `terms` of `tokenise` does, in any order."""
    pairs = [term for term in wanted if _is_pair(term)]
    for pair in pairs:
        at = normal.find(pair)
        while at >= 0:
            yield at, at + len(pair)
            at = normal.find(pair, at + 1)
    if len(pairs) < len(wanted):
        for chunk in _CHUNK.finditer(normal):
            start, text = chunk.start(), chunk[0]
            for term in _kept_words(text) if len(text) <= _KEPT_CHARS else _words(text):
                if term.text in wanted:
                    yield start + term.start, start + term.end


@lru_cache(_CHUNKS_KEPT)
def _is_pair(term: str) -> bool:
    """Return whether a term is two characters that touch; else it is a word."""
    return [token.kind for token in tokenise(term)] == [Kind.CHARACTER, Kind.CHARACTER]


def _words(chunk: str) -> tuple[Term, ...]:
    return tuple(term for term in terms(tokenise(chunk)) if not _is_pair(term.text))


_kept_words = lru_cache(_CHUNKS_KEPT)(_words)


class Span(NamedTuple):
    """A half-open range of the content, in code points."""

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

    The snippet has at most `snippet_chars` (at least 1) characters. It is all of a short content, else the part
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
    """Return where a phrase begins, overlapping itself too."""
    joined, wanted = _line_each(texts), _line_each(phrase)
    place, seen = 0, 0
    at = joined.find(wanted)
    while at >= 0:
        place, seen = place + joined.count(_END, seen, at), at
        yield place
        at = joined.find(wanted, at + 1)


def _line_each(texts: Iterable[str]) -> str:
    return f"{_END}{_END.join(texts)}{_END}"


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
    """Return the part, beginning with a span, that holds the most whole ones."""
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
