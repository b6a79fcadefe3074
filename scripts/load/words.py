"""Random English and Chinese vocabularies and messages with Zipf-distributed words."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np

Vocabulary = list[str]

_SIZE = 20_000
_SEED = 7
_LENGTHS = (4, 17)
"""Number of words per message: minimum (inclusive) and maximum (exclusive)."""
_ENGLISH_SHARE, _CHINESE_SHARE = 0.45, 0.45
_FIRST_CHARACTER, _CHARACTERS = 0x4E00, 3000


@cache
def build_english_vocabulary() -> Vocabulary:
    """Return the English vocabulary, from the most to the least frequent word."""
    onsets = [*"bcdfghjklmnprstvwz", "br", "cl", "dr", "fl", "gr", "pl", "pr", "sh", "sk", "st", "th", "tr"]
    syllables = [onset + nucleus for onset, nucleus in product(onsets, ("a", "e", "i", "o", "u", "ai", "ou"))]
    random = np.random.default_rng(_SEED)
    words: dict[str, None] = {}
    while len(words) < _SIZE:
        words["".join(random.choice(syllables, random.integers(2, 4))) + str(random.choice(["n", "k", "m", "x"]))] = (
            None
        )
    return list(words)


@cache
def build_chinese_vocabulary() -> Vocabulary:
    """Return the Chinese vocabulary, from the most to the least frequent word."""
    random = np.random.default_rng(_SEED)
    words: dict[str, None] = {}
    while len(words) < _SIZE:
        words["".join(chr(_FIRST_CHARACTER + integer) for integer in random.integers(0, _CHARACTERS, 2))] = None
    return list(words)


_CUMULATED = np.cumsum(1 / np.arange(1, _SIZE + 1))


def draw_words(random: np.random.Generator, messages: int) -> list[tuple[list[str], bool]]:
    """Return the random words of each message, and whether the words are Chinese; mixed messages count as English."""
    lengths = random.integers(*_LENGTHS, messages)
    ranks = np.searchsorted(_CUMULATED, random.random(int(lengths.sum())) * _CUMULATED[-1]).tolist()
    languages = random.random(messages).tolist()
    latin, han = build_english_vocabulary(), build_chinese_vocabulary()
    texts, start = [], 0
    for length, language in zip(lengths.tolist(), languages, strict=True):
        word_ranks = ranks[start : start + length]
        start += length
        if language < _ENGLISH_SHARE:
            texts.append(([latin[rank] for rank in word_ranks], False))
        elif language < _ENGLISH_SHARE + _CHINESE_SHARE:
            texts.append(([han[rank] for rank in word_ranks], True))
        else:
            half = length // 2
            texts.append(
                ([latin[rank] for rank in word_ranks[:half]] + [han[rank] for rank in word_ranks[half:]], False)
            )
    return texts


def join_words(words: list[str], is_chinese: bool) -> str:  # noqa: FBT001 - the pair that `draw_words` returns
    """Join words into a sentence."""
    return "".join(words) + "。" if is_chinese else " ".join(words) + "."
