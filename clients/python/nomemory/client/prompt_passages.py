"""Select the most relevant passages of a long message."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

_ASCII_CHARS: Final = 3
"""Assumed number of ASCII characters per token. English prose has about four; ids, dates and JSON have fewer."""
_GAP: Final = " … "
_SENTENCE: Final = re.compile(r"[^\n。！？；.!?]*(?:[\n。！？；]+|(?<![.!?])[.!?]+\s+|[.!?]|\Z)")
_PIECE: Final = re.compile(r".{1,120}(?:\s|\Z)|.{1,40}", re.DOTALL | re.ASCII)
_WIDE_PIECE: Final = re.compile(r".{1,40}", re.DOTALL)
"""Like `_PIECE`, for sentences with non-ASCII characters. Long sentences are split, because code and lists may have no
sentence ends."""
_WIDE: Final = "\u2e80-\u9fff\uac00-\ud7af"
"""CJK and Hangul characters, whose bigrams are compared instead of words."""
_WORD: Final = re.compile(rf"[^\W_{_WIDE}]{{2,}}|[{_WIDE}]+")
_STEM_CHARS: Final = 5
"""Number of characters of a word that are compared, so that `allergic` matches `allergy`."""
_MIN_PASSAGE_TOKENS: Final = 8
"""Minimum number of remaining tokens to add another passage."""
_QUOTED: Final = 1_000.0
"""Weight of a quoted passage. It exceeds the total weight of all question terms."""
_STRONG: Final = 0.5
"""Fraction of the best weight above which neighbors of a passage rank before weaker matches."""


def count_tokens(text: str) -> int:
    """Estimate the number of tokens in a text: one per non-ASCII character, and one per three ASCII characters.

    The estimate is rarely too low.
    """
    plain = len(text.encode("ascii", "ignore"))
    return len(text) - plain + -(-plain // _ASCII_CHARS)


class PassageSelector:
    """Selects the most relevant passages of a message.

    The best matches rank first: passages that contain a quote or, without quotes, passages with the most terms of the
    question. They are followed by their neighbors, weaker matches, and all other passages in text order. A term that
    occurs in few passages counts more than a frequent one.

    Args:
        quotes: quotes of the content; the passages that contain them rank first.
        question: the question whose words determine which passages are relevant.
    """

    def __init__(self, content: str, quotes: Sequence[str] = (), question: str = "") -> None:
        self._content = content
        self._quotes = quotes
        self._question = question

    def shorten(self, max_tokens: int) -> str:
        """Return the content if it fits into `max_tokens`, otherwise the best passages, joined by `…` in text order."""
        shown = self.select_excerpts(max_tokens)
        if shown == [self._content]:
            return self._content
        last = "" if self._content.endswith(shown[-1]) else _GAP
        first = "" if self._content.startswith(shown[0]) else _GAP
        return (first + _GAP.join(shown) + last).strip()

    def select_excerpts(self, max_tokens: int) -> list[str]:
        """Return the content if it fits into `max_tokens`, otherwise excerpts that fit together."""
        if self._token_count <= max_tokens:
            return [self._content]
        kept: set[int] = set()
        remaining = max_tokens - count_tokens(_GAP)
        for index, cost in self._ranked_passages:
            if cost <= remaining:
                kept.add(index)
                remaining -= cost
            if remaining < _MIN_PASSAGE_TOKENS:
                break
        return _join_passages(self._passages, kept) if kept else [self._content[: max_tokens // 2]]

    @cached_property
    def _token_count(self) -> int:
        return count_tokens(self._content)

    @cached_property
    def _passages(self) -> list[str]:
        return list(_split_passages(self._content))

    @cached_property
    def _ranked_passages(self) -> list[tuple[int, int]]:
        """The indexes of the passages in ranking order, each with the number of tokens in the passage."""
        weights = _weigh_passages(self._content, self._passages, self._quotes, self._question)
        return [(index, count_tokens(self._passages[index] + _GAP)) for index in _rank_passages(weights)]


def _split_passages(content: str) -> Iterator[str]:
    for sentence in _SENTENCE.findall(content):
        yield from (_PIECE if sentence.isascii() else _WIDE_PIECE).findall(sentence)


def _weigh_passages(content: str, passages: Sequence[str], quotes: Sequence[str], question: str) -> list[float]:
    question_terms = set(_extract_terms(question))
    matched_terms = [question_terms.intersection(_extract_terms(passage)) for passage in passages]
    passage_counts = Counter(term for terms in matched_terms for term in terms)
    quoted = [(at, at + len(quote)) for quote in quotes if (at := content.find(quote)) >= 0]
    weights, begin = [], 0
    for passage, terms in zip(passages, matched_terms, strict=True):
        end = begin + len(passage)
        is_quoted = any(start < end and begin < stop for start, stop in quoted)
        weights.append(_QUOTED * is_quoted + sum(1 / passage_counts[term] for term in terms))
        begin = end
    return weights


def _rank_passages(weights: Sequence[float]) -> Iterable[int]:
    """Rank the passages: strong matches, then their neighbors, then weaker matches, then all others."""
    best = max(weights, default=0.0)
    matching = sorted((index for index, weight in enumerate(weights) if weight), key=lambda at: (-weights[at], at))
    strong = [index for index in matching if weights[index] >= _STRONG * best]
    around = [near for step in (1, -1) for near in (at + step for at in strong) if 0 <= near < len(weights)]
    return dict.fromkeys([*strong, *around, *matching, *range(len(weights))])


def _join_passages(passages: Sequence[str], kept: Iterable[int]) -> list[str]:
    """Return the selected passages in text order. Adjacent passages are joined into one excerpt."""
    excerpts: list[str] = []
    last = None
    for index in sorted(kept):
        if index - 1 == last:
            excerpts[-1] += passages[index]
        else:
            excerpts.append(passages[index])
        last = index
    return excerpts


def _extract_terms(text: str) -> Iterator[str]:
    for word in _WORD.findall(text.casefold()):
        if re.match(f"[{_WIDE}]", word):
            yield from (word[at : at + 2] for at in range(max(1, len(word) - 1)))
        else:
            yield word[:_STEM_CHARS]
