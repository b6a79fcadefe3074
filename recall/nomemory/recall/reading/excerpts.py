"""Shorten long messages to their most relevant complete sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

import regex  # type: ignore[import-untyped]  # the package has no type information

from nomemory.client.prompt_passages import count_tokens
from nomemory.text.sentences import CLAUSE_END, SENTENCE_END, mask_quotations
from nomemory.text.terms import extract_terms

_GAP_TOKENS: Final = 3
"""Number of tokens that separate two excerpts in JSON."""
_MIN_NEIGHBOR_WEIGHT_SHARE: Final = 0.5
"""Sentences with at least this share of the best weight, and their neighbors, precede all other sentences."""
_MAX_SENTENCE_TOKENS: Final = 200
"""Maximum number of tokens in a sentence. Longer sentences are split at a clause end or space."""
_SPACE: Final = regex.compile(r"\s+")
_MAX_MARK_CHARS: Final = 16
"""Maximum number of characters in a list marker."""
_MARK: Final = regex.compile(r"[\W\d_]*\p{L}?[\W\d_]*")
"""A list number or letter, which belongs to the following text."""


class ExcerptSelector:
    """Selects excerpts of a message that fit into a token limit.

    Sentences that contain words of the question are selected first, then neighboring sentences. Rare words count more
    than frequent ones. If no sentence matches, the beginning of the message is selected.

    Args:
        question: the question whose words determine which sentences are relevant.
    """

    def __init__(self, content: str, question: str) -> None:
        self._content = content
        self._question = question

    def shorten(self, max_tokens: int) -> list[str]:
        """Return the content if it fits into `max_tokens`, otherwise excerpts of complete sentences.

        At least one sentence is returned.
        """
        if self._token_count <= max_tokens:
            return [self._content]
        kept_indexes: set[int] = set()
        remaining_tokens = max_tokens
        for index in self._ranked_indexes:
            sentence_tokens = count_tokens(self._sentences[index]) + _GAP_TOKENS
            if sentence_tokens <= remaining_tokens or not kept_indexes:
                kept_indexes.add(index)
                remaining_tokens -= sentence_tokens
            if remaining_tokens <= _GAP_TOKENS:
                break
        return _join_sentences(self._sentences, kept_indexes)

    @cached_property
    def _token_count(self) -> int:
        return count_tokens(self._content)

    @cached_property
    def _sentences(self) -> list[str]:
        return list(split_whole_sentences(self._content))

    @cached_property
    def _ranked_indexes(self) -> list[int]:
        question_terms = extract_terms(self._question)
        shared_terms = [question_terms & extract_terms(sentence) for sentence in self._sentences]
        sentence_counts = Counter(term for shared in shared_terms for term in shared)
        weights = [sum(1 / sentence_counts[term] for term in shared) for shared in shared_terms]
        best_weight = max(weights, default=0.0)
        matching_indexes = sorted(
            (index for index, weight in enumerate(weights) if weight), key=lambda index: (-weights[index], index)
        )
        best_indexes = [
            index for index in matching_indexes if weights[index] >= _MIN_NEIGHBOR_WEIGHT_SHARE * best_weight
        ]
        neighbor_indexes = [
            neighbor
            for offset in (1, -1)
            for neighbor in (index + offset for index in best_indexes)
            if 0 <= neighbor < len(weights)
        ]
        return list(dict.fromkeys([*best_indexes, *neighbor_indexes, *matching_indexes, *range(len(weights))]))


def split_whole_sentences(content: str) -> Iterator[str]:
    """Split a text into sentences without dropping any characters. A list marker stays with its item."""
    buffer = ""
    for sentence in _split_at_ends(content, mask_quotations(content), SENTENCE_END):
        buffer += sentence
        if len(buffer) > _MAX_MARK_CHARS or not _MARK.fullmatch(buffer):
            yield from _split_long_sentence(buffer)
            buffer = ""
    if buffer:
        yield buffer


def _split_long_sentence(sentence: str) -> Iterator[str]:
    """Split a sentence that is too long at clause ends or, if necessary, at spaces."""
    ends = iter((CLAUSE_END, _SPACE))
    pieces = [sentence]
    while any(count_tokens(piece) > _MAX_SENTENCE_TOKENS for piece in pieces) and (end := next(ends, None)) is not None:
        parts = (
            part
            for piece in pieces
            for part in (_split_at_ends(piece, piece, end) if count_tokens(piece) > _MAX_SENTENCE_TOKENS else [piece])
        )
        pieces = list(_join_short_parts(parts))
    yield from pieces


def _join_short_parts(parts: Iterable[str]) -> Iterator[str]:
    """Join adjacent parts of a sentence up to the maximum length."""
    piece = ""
    for part in parts:
        if piece and count_tokens(piece + part) > _MAX_SENTENCE_TOKENS:
            yield piece
            piece = ""
        piece += part
    if piece:
        yield piece


def _split_at_ends(text: str, mask: str, ends: regex.Pattern[str]) -> Iterator[str]:
    start = 0
    for match in ends.finditer(mask):
        if match.end() > start:
            yield text[start : match.end()]
            start = match.end()
    if start < len(text):
        yield text[start:]


def _join_sentences(sentences: Sequence[str], kept_indexes: Iterable[int]) -> list[str]:
    """Return the selected sentences in order. Adjacent sentences form one excerpt."""
    excerpts: list[str] = []
    last_index = None
    for index in sorted(kept_indexes):
        if last_index is not None and index == last_index + 1:
            excerpts[-1] += sentences[index]
        else:
            excerpts.append(sentences[index])
        last_index = index
    return [shown for excerpt in excerpts if (shown := excerpt.strip())]
