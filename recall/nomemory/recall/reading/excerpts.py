"""Select the most relevant sentences of a long message without cutting sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

import regex  # type: ignore[import-untyped]  # it ships without types

from nomemory.client.prompt_passages import tokens
from nomemory.text.sentences import CLAUSE_END, SENTENCE_END, mask_quotations
from nomemory.text.terms import extract_terms

_GAP_TOKENS: Final = 3
"""Number of tokens that separate two excerpts in JSON."""
_STRONG: Final = 0.5
"""Minimum share of the best weight for a sentence's neighbors to precede other sentences."""
_LONGEST: Final = 200
"""Maximum number of tokens in a sentence. Longer sentences are split at a clause end or space."""
_SPACE: Final = regex.compile(r"\s+")
_MARK: Final = regex.compile(r"[\W\d_]*\p{L}?[\W\d_]*")
"""A list number or letter, which belongs to the following text."""


class Excerpts:
    """The content of a message, which can be shortened to a token limit.

    Sentences with words of the question come first, weighted by rarity, then their neighbors. Without a match, the
    beginning of the content is selected.

    Args:
        content: the message content.
        question: the question whose words select the sentences.
    """

    def __init__(self, content: str, question: str) -> None:
        self._content = content
        self._question = question

    def shorten(self, max_tokens: int) -> list[str]:
        """Return the whole content if it fits, otherwise excerpts of whole sentences; at least one."""
        if self._tokens <= max_tokens:
            return [self._content]
        kept: set[int] = set()
        room = max_tokens
        for at in self._best_first:
            cost = tokens(self._sentences[at]) + _GAP_TOKENS
            if cost <= room or not kept:
                kept.add(at)
                room -= cost
            if room <= _GAP_TOKENS:
                break
        return _joined(self._sentences, kept)

    @cached_property
    def _tokens(self) -> int:
        return tokens(self._content)

    @cached_property
    def _sentences(self) -> list[str]:
        return list(whole_sentences(self._content))

    @cached_property
    def _best_first(self) -> list[int]:
        question = extract_terms(self._question)
        shared_terms = [question & extract_terms(sentence) for sentence in self._sentences]
        spread = Counter(term for shared in shared_terms for term in shared)
        weights = [sum(1 / spread[term] for term in shared) for shared in shared_terms]
        best = max(weights, default=0.0)
        matching = sorted((at for at, weight in enumerate(weights) if weight), key=lambda at: (-weights[at], at))
        strong = [at for at in matching if weights[at] >= _STRONG * best]
        around = [near for step in (1, -1) for near in (at + step for at in strong) if 0 <= near < len(weights)]
        return list(dict.fromkeys([*strong, *around, *matching, *range(len(weights))]))


def whole_sentences(content: str) -> Iterator[str]:
    """Split a text into sentences without losing characters. List marks stay with their items."""
    begun = ""
    for sentence in _split_after(content, mask_quotations(content), SENTENCE_END):
        begun += sentence
        if not _MARK.fullmatch(begun):
            yield from _split_long(begun)
            begun = ""
    if begun:
        yield begun


def _split_long(sentence: str) -> Iterator[str]:
    """Split an overlong text at clause ends, or else at spaces."""
    ends = iter((CLAUSE_END, _SPACE))
    pieces = [sentence]
    while any(tokens(piece) > _LONGEST for piece in pieces) and (end := next(ends, None)) is not None:
        parts = (
            part
            for piece in pieces
            for part in (_split_after(piece, piece, end) if tokens(piece) > _LONGEST else [piece])
        )
        pieces = list(_join_short(parts))
    yield from pieces


def _join_short(parts: Iterable[str]) -> Iterator[str]:
    """Join adjacent parts up to the maximum length."""
    piece = ""
    for part in parts:
        if piece and tokens(piece + part) > _LONGEST:
            yield piece
            piece = ""
        piece += part
    if piece:
        yield piece


def _split_after(text: str, mask: str, ends: regex.Pattern[str]) -> Iterator[str]:
    start = 0
    for match in ends.finditer(mask):
        if match.end() > start:
            yield text[start : match.end()]
            start = match.end()
    if start < len(text):
        yield text[start:]


def _joined(sentences: Sequence[str], kept: Iterable[int]) -> list[str]:
    """Return the selected sentences in order. Adjacent sentences form one excerpt."""
    excerpts: list[str] = []
    last = None
    for at in sorted(kept):
        if last is not None and at == last + 1:
            excerpts[-1] += sentences[at]
        else:
            excerpts.append(sentences[at])
        last = at
    return [shown for excerpt in excerpts if (shown := excerpt.strip())]
