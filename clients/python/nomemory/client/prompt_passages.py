"""The passages of a long message that matter most for a question, as many as there is room for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

_ASCII_CHARS: Final = 3
"""Characters of a token. English prose has about four; ids, dates and JSON, which a block is full of, have fewer."""
_GAP: Final = " … "
_SENTENCE: Final = re.compile(r"[^\n。！？；.!?]*(?:[\n。！？；]+|[.!?]+\s+|[.!?]|\Z)")
_PIECE: Final = re.compile(r".{1,120}(?:\s|\Z)|.{1,40}", re.DOTALL | re.ASCII)
_WIDE_PIECE: Final = re.compile(r".{1,40}", re.DOTALL)
"""A sentence is parted after so many characters: code and lists may have no ends of sentences."""
_WIDE: Final = "\u2e80-\u9fff\uac00-\ud7af"
"""Scripts without spaces between the words, and Hangul: pairs of characters stand for words."""
_WORD: Final = re.compile(rf"[^\W_{_WIDE}]{{2,}}|[{_WIDE}]+")
_STEM_CHARS: Final = 5
"""Of a word: enough to know `allergic` by `allergy`."""
_CROWDED: Final = 8
"""Tokens of room in which no passage worth showing fits."""
_QUOTED: Final = 1_000.0
"""What a quote weighs: more than all of the question's words."""
_STRONG: Final = 0.5
"""Share of the best weight from which on what stands around a passage is worth more than other passages."""


def tokens(text: str) -> int:
    """Estimate how many tokens a text takes: one for each character beyond ASCII, and one for every 3 of ASCII.

    It needs no tokenizer, and is seldom too low.
    """
    plain = len(text.encode("ascii", "ignore"))
    return len(text) - plain + -(-plain // _ASCII_CHARS)


class Passages:
    """A content, to be shown in more or in less room.

    Best are the passages that are quoted, then those with the question's words, a rare one counting more, then what
    stands around them. Where nothing matches it is the beginning.

    Args:
        content: what was said.
        quotes: excerpts of it that a statement quotes.
        question: what was asked.
    """

    def __init__(self, content: str, quotes: Sequence[str] = (), question: str = "") -> None:
        self._content = content
        self._quotes = quotes
        self._question = question

    def within(self, max_tokens: int) -> str:
        """Return the content as it is if it fits, else its best passages that do, in their order, parted by `…`."""
        shown = self.excerpts(max_tokens)
        if shown == [self._content]:
            return self._content
        last = "" if self._content.endswith(shown[-1]) else _GAP
        first = "" if self._content.startswith(shown[0]) else _GAP
        return (first + _GAP.join(shown) + last).strip()

    def excerpts(self, max_tokens: int) -> list[str]:
        """Return the same as excerpts of the content, each verbatim; where it fits, all of it is one."""
        if self._tokens <= max_tokens:
            return [self._content]
        kept: set[int] = set()
        room = max_tokens - tokens(_GAP)
        for place, cost in self._best_first:
            if cost <= room:
                kept.add(place)
                room -= cost
            if room < _CROWDED:
                break
        return _joined(self._passages, kept) if kept else [self._content[: max_tokens // 2]]

    @cached_property
    def _tokens(self) -> int:
        return tokens(self._content)

    @cached_property
    def _passages(self) -> list[str]:
        return list(_passages(self._content))

    @cached_property
    def _best_first(self) -> list[tuple[int, int]]:
        """The places of the passages, and what each costs."""
        weights = _weights(self._content, self._passages, self._quotes, self._question)
        return [(place, tokens(self._passages[place] + _GAP)) for place in _best_first(weights)]


def _passages(content: str) -> Iterator[str]:
    for sentence in _SENTENCE.findall(content):
        yield from (_PIECE if sentence.isascii() else _WIDE_PIECE).findall(sentence)


def _weights(content: str, passages: Sequence[str], quotes: Sequence[str], question: str) -> list[float]:
    asked = set(_terms(question))
    found = [asked.intersection(_terms(passage)) for passage in passages]
    spread = Counter(term for terms in found for term in terms)
    quoted = [(at, at + len(quote)) for quote in quotes if (at := content.find(quote)) >= 0]
    weights, begin = [], 0
    for passage, terms in zip(passages, found, strict=True):
        end = begin + len(passage)
        is_quoted = any(start < end and begin < stop for start, stop in quoted)
        weights.append(_QUOTED * is_quoted + sum(1 / spread[term] for term in terms))
        begin = end
    return weights


def _best_first(weights: Sequence[float]) -> Iterable[int]:
    """Return the places of passages: the strong ones, what stands after and before these, the others."""
    best = max(weights, default=0.0)
    matching = sorted((place for place, weight in enumerate(weights) if weight), key=lambda at: (-weights[at], at))
    strong = [place for place in matching if weights[place] >= _STRONG * best]
    around = [near for step in (1, -1) for near in (at + step for at in strong) if 0 <= near < len(weights)]
    return dict.fromkeys([*strong, *around, *matching, *range(len(weights))])


def _joined(passages: Sequence[str], kept: Iterable[int]) -> list[str]:
    """Return the kept passages in their order; those that stand side by side are one excerpt."""
    excerpts: list[str] = []
    last = None
    for place in sorted(kept):
        if place - 1 == last:
            excerpts[-1] += passages[place]
        else:
            excerpts.append(passages[place])
        last = place
    return excerpts


def _terms(text: str) -> Iterator[str]:
    for word in _WORD.findall(text.casefold()):
        if re.match(f"[{_WIDE}]", word):
            yield from (word[at : at + 2] for at in range(max(1, len(word) - 1)))
        else:
            yield word[:_STEM_CHARS]
