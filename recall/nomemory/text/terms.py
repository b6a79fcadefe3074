"""Extract the content terms of Chinese and English text, to compare two texts."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import regex  # type: ignore[import-untyped]  # the package has no type information

from nomemory.text.normalization import fold_text, limit_combining_marks
from nomemory.text.stems import stem_word
from nomemory.text.stop_words import CONVERSATIONAL_STOP_WORDS

_RUN = regex.compile(r"(?P<han>\p{Han}+)|(?P<word>[\p{L}\p{N}]+(?:'[a-z]+)?)")
_NUMBER = regex.compile(r"\d+(?:[.:]\d+)*")


_FUNCTION_CHARACTERS = frozenset(
    "的了着过吗呢吧啊呀嘛么啦哦地得我你您他她它们这那哪是在有和与跟及或也都就还又很太最更把被给让向从到对于"
)
"""Chinese function characters. A bigram of two function characters is not a term."""


def extract_chinese_bigrams(run: str) -> list[str]:
    """Return the overlapping bigrams of a Chinese run; a single character is returned unchanged."""
    return [left + right for left, right in pairwise(run)] or [run]


def extract_terms(text: str) -> frozenset[str]:
    """Return the content terms of a text: stems without stop words, and Chinese bigrams."""
    content_terms: set[str] = set()
    for match in _RUN.finditer(fold_text(text)):
        if match["han"]:
            content_terms.update(
                pair for pair in extract_chinese_bigrams(match["han"]) if not _FUNCTION_CHARACTERS.issuperset(pair)
            )
        elif (word := match["word"].split("'")[0]) not in CONVERSATIONAL_STOP_WORDS:
            content_terms.add(stem_word(word))
    return frozenset(content_terms)


def extract_numbers(text: str) -> frozenset[str]:
    """Return the numbers in a text that are written in digits."""
    return frozenset(_NUMBER.findall(unicodedata.normalize("NFKC", limit_combining_marks(text))))
