"""Highlight a message: find the positions of matches, and select the snippet with the most matches."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import regex  # type: ignore[import-untyped]  # it ships without types

from nomemory.server.search.grammar.tree import Leaf, Query, TokenField
from nomemory.text.analysis import Term, Token, TokenKind, extract_ranking_terms, tokenize
from nomemory.text.normalization import COMBINING, INVISIBLE, normalize

_MARKED = regex.compile(rf"[{COMBINING}{INVISIBLE}\u1100-\u11FF\u3099\u309A]", regex.V1)
"""Characters that combine with the previous one: accents, invisible characters, jamo, voicing marks."""

_CHUNK = regex.compile(r"\S+", regex.V1)
"""Text between spaces. No token or term contains a space."""

_DELIMITER = "\n"
"""A character that no token contains."""

_CACHED_CHUNKS = 8192
_MAX_CACHED_CHARS = 32
"""Longer chunks rarely repeat."""


def normalize_plain_text(text: str) -> str | None:
    """Return the normalized text; None if it has combining characters, which change offsets."""
    normal = normalize(text)
    return None if _MARKED.search(normal) else normal


def find_terms(normal: str, query_terms: Collection[str]) -> Iterator[tuple[int, int]]:
    """Yield the unsorted ranges of the query terms in a normalized text without combining characters."""
    pairs = [term for term in query_terms if _is_character_pair(term)]
    for pair in pairs:
        at = normal.find(pair)
        while at >= 0:
            yield at, at + len(pair)
            at = normal.find(pair, at + 1)
    if len(pairs) < len(query_terms):
        for chunk in _CHUNK.finditer(normal):
            start, text = chunk.start(), chunk[0]
            for term in _cached_words(text) if len(text) <= _MAX_CACHED_CHARS else _collect_word_terms(text):
                if term.text in query_terms:
                    yield start + term.start, start + term.end


@lru_cache(_CACHED_CHUNKS)
def _is_character_pair(term: str) -> bool:
    """Return whether a term is a pair of adjacent characters, as opposed to a word."""
    return [token.kind for token in tokenize(term)] == [TokenKind.CHARACTER, TokenKind.CHARACTER]


def _collect_word_terms(chunk: str) -> tuple[Term, ...]:
    return tuple(term for term in extract_ranking_terms(tokenize(chunk)) if not _is_character_pair(term.text))


_cached_words = lru_cache(_CACHED_CHUNKS)(_collect_word_terms)


class Span(NamedTuple):
    """A half-open range of the content, in code points."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Highlight:
    """The highlights of a message.

    Attributes:
        spans: the matches, in order; they neither overlap nor touch.
        snippet: the range of the snippet.
        truncated: whether the limits may have cut off further matches.
    """

    spans: tuple[Span, ...]
    snippet: Span
    truncated: bool


@dataclass(frozen=True, slots=True)
class HighlightLimits:
    """Limits of a highlight: the number of characters to analyze, and the number of spans to return."""

    chars: int
    spans: int


def highlight(content: str, query: Query, snippet_chars: int, limits: HighlightLimits) -> Highlight:
    """Find the matches of a query's terms and phrases, without excluded terms, and select a snippet.

    Offsets refer to the original text.

    The snippet has at most `snippet_chars` characters, which must be at least 1. If the content is longer, the snippet
    is the part with the most spans (the first of several such parts), cut between tokens if possible. The run time is
    O(limits.chars * phrases).
    """
    matches = _merge_spans(sorted(_find_matches(content, query.leaves, limits.chars)))
    spans = matches[: limits.spans]
    snippet = _select_snippet(content, spans, snippet_chars, limits.chars)
    return Highlight(tuple(spans), snippet, len(content) > limits.chars or len(matches) > len(spans))


def _find_matches(content: str, leaves: Sequence[Leaf], chars: int) -> Iterator[Span]:
    """Yield the unsorted matches of the query's terms and phrases in the first `chars` characters."""
    has_phrases = any(leaf.stream is TokenField.CHARS for leaf in leaves)
    normal = None if has_phrases or len(content) > chars else normalize_plain_text(content)
    if normal is None:
        return _match_leaves(_tokenize_prefix(content, chars), leaves)
    return (Span(start, end) for start, end in find_terms(normal, {leaf.tokens[0] for leaf in leaves}))


def _tokenize_prefix(content: str, chars: int) -> list[Token]:
    """Return the tokens that are completely within the first `chars` characters."""
    tokens = tokenize(content[:chars])
    return tokens[:-1] if len(content) > chars and tokens and tokens[-1].end == chars else tokens


def _match_leaves(tokens: Sequence[Token], leaves: Sequence[Leaf]) -> Iterator[Span]:
    ranking = {leaf.tokens[0] for leaf in leaves if leaf.stream is TokenField.TERMS}
    if ranking:
        yield from (Span(term.start, term.end) for term in extract_ranking_terms(tokens) if term.text in ranking)
    texts = [token.text for token in tokens]
    for leaf in leaves:
        if leaf.stream is TokenField.CHARS:
            for first in _find_phrase(texts, leaf.tokens):
                yield Span(tokens[first].start, tokens[first + len(leaf.tokens) - 1].end)


def _find_phrase(texts: Sequence[str], phrase: tuple[str, ...]) -> Iterator[int]:
    """Yield the index of the first token of each occurrence of a phrase. Occurrences may overlap."""
    joined, needle = _join_with_delimiters(texts), _join_with_delimiters(phrase)
    index, counted = 0, 0
    at = joined.find(needle)
    while at >= 0:
        index, counted = index + joined.count(_DELIMITER, counted, at), at
        yield index
        at = joined.find(needle, at + 1)


def _join_with_delimiters(texts: Iterable[str]) -> str:
    return f"{_DELIMITER}{_DELIMITER.join(texts)}{_DELIMITER}"


def _merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Merge sorted spans that overlap or touch."""
    merged: list[Span] = []
    for span in spans:
        if merged and span.start <= merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged


def _select_snippet(content: str, spans: Sequence[Span], chars: int, analyzed_chars: int) -> Span:
    if len(content) <= chars:
        return Span(0, len(content))
    densest = _find_densest_range(spans, chars)
    if densest.end - densest.start >= chars:
        return Span(densest.start, densest.start + chars)
    start = max(0, min(densest.start - (chars - (densest.end - densest.start)) // 2, len(content) - chars))
    window = Span(start, start + chars)
    return _align_to_tokens(_find_tokens_near(content, window, analyzed_chars), window, densest)


def _find_tokens_near(content: str, window: Span, analyzed_chars: int) -> list[Span]:
    """Return the ranges of the tokens near a window, including every token that overlaps the window."""
    if len(content) > analyzed_chars:
        return [Span(token.start, token.end) for token in _tokenize_prefix(content, analyzed_chars)]
    first, end = content.rfind(" ", 0, window.start) + 1, content.find(" ", window.end)
    tokens = tokenize(content[first : end if end >= 0 else len(content)])
    return [Span(first + token.start, first + token.end) for token in tokens]


def _find_densest_range(spans: Sequence[Span], chars: int) -> Span:
    """Return the range of at most `chars` characters that starts at a span and contains the maximum number of spans."""
    ends = [span.end for span in spans]
    counts = [bisect_right(ends, span.start + chars) - index for index, span in enumerate(spans)]
    if not counts:
        return Span(0, 0)
    best = counts.index(max(counts))
    return Span(spans[best].start, spans[best + max(1, counts[best]) - 1].end)


def _align_to_tokens(tokens: Sequence[Span], window: Span, densest_range: Span) -> Span:
    """Shrink a window to token boundaries, but keep all of `densest_range`."""
    first = bisect_left(tokens, window.start, key=lambda token: token.start)
    last = bisect_right(tokens, window.end, key=lambda token: token.end) - 1
    if last < first:
        return window
    return Span(min(tokens[first].start, densest_range.start), max(tokens[last].end, densest_range.end))
