"""The tokenizer of multilingual-e5-small, a unigram language model (Kudo 2018, https://arxiv.org/abs/1804.10959).

This implementation takes 6 MB per process; the package `tokenizers` takes 280 MB. The package `tokenizers` also merges
adjacent unknown characters into one token, which changes the vectors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final

from nomemory.server.embedding.onnx.piece_trie import PieceTrie

_SPACE: Final = "▁"
_UNKNOWN_PENALTY: Final = 10.0
_CACHED_WORDS: Final = 8_192
_CACHED_WORD_MAX_CHARS: Final = 64
"""Maximum length of a cached word. A Chinese sentence without spaces counts as one word."""

_SPACES: Final = re.compile(" {2,}")
_WORDS: Final = re.compile(f"{_SPACE}[^{_SPACE}]*")


class UnigramTokenizer:
    """Splits texts into the pieces of a vocabulary.

    Args:
        pieces: the vocabulary. A piece contains a space only at its start, so that words can be tokenized separately.
        normalization: the replacements of code points, for `str.translate`.
        unknown_id: the token id of characters that the vocabulary does not contain.
    """

    def __init__(self, pieces: PieceTrie, normalization: Mapping[int, str], unknown_id: int) -> None:
        self._pieces = pieces
        self._normalization = normalization
        self._unknown_id = unknown_id
        self._unknown_score = pieces.minimum_score - _UNKNOWN_PENALTY
        self._cached_viterbi = lru_cache(_CACHED_WORDS)(self._find_best_segmentation)

    def tokenize(self, text: str) -> list[int]:
        """Return the token ids of a text, without start and end tokens."""
        text = _SPACES.sub(" ", text.translate(self._normalization)).replace(" ", _SPACE)
        words = _WORDS.findall(text if text.startswith(_SPACE) else _SPACE + text)
        return list(chain.from_iterable(map(self._tokenize_word, words)))

    def _tokenize_word(self, word: str) -> Sequence[int]:
        return self._cached_viterbi(word) if len(word) <= _CACHED_WORD_MAX_CHARS else self._find_best_segmentation(word)

    def _find_best_segmentation(self, word: str) -> Sequence[int]:
        """Return the token ids of a word's segmentation with the highest total score."""
        code_points, unknown_id = list(map(ord, word)), self._unknown_id
        best_score = [0.0] + [float("-inf")] * len(word)
        # The start and the id of the best token that ends at each offset.
        last_token: list[tuple[int, int]] = [(0, unknown_id)] * (len(word) + 1)
        for start in range(len(word)):
            score_here = best_score[start]
            for end, token_id, score in self._pieces.find_prefixes(code_points, start):
                if score_here + score > best_score[end]:
                    best_score[end] = score_here + score
                    last_token[end] = (start, token_id)
            if score_here + self._unknown_score > best_score[start + 1]:
                best_score[start + 1] = score_here + self._unknown_score
                last_token[start + 1] = (start, unknown_id)
        return _backtrack_segmentation(last_token)


def _backtrack_segmentation(last_token: Sequence[tuple[int, int]]) -> Sequence[int]:
    """Return the token ids of the best segmentation by following the tokens from the end of the word to its start."""
    token_ids = []
    end = len(last_token) - 1
    while end:
        end, token_id = last_token[end]
        token_ids.append(token_id)
    return token_ids[::-1]
