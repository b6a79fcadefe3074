"""Parse Chinese numerals and English number words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from nomemory.text.normalization import replace_case_lookalikes

CHINESE_DIGITS: Final = {char: value for value, char in enumerate("零一二三四五六七八九")} | {
    "〇": 0,
    "两": 2,
    "俩": 2,
    "仨": 3,
}
_UNITS: Final = {"十": 10, "百": 100, "千": 1_000}
_GROUPS: Final = {"万": 10_000, "亿": 100_000_000}
_TOKEN: Final = re.compile(r"\d+(?:\.\d+)?|.", re.DOTALL)
_RUN: Final = re.compile(rf"(?:\d+(?:\.\d+)?|[{''.join((*CHINESE_DIGITS, *_UNITS, *_GROUPS))}])+")
NUMERAL: Final = rf"[\d{''.join(CHINESE_DIGITS)}十廿]{{1,5}}"
"""Pattern for a small number in digits or Chinese characters."""

_SMALL: Final = {
    word: value
    for value, word in enumerate(
        (
            *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"),
            *("twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
        )
    )
} | {"dozen": 12}
_TENS: Final = {
    word: 10 * tens
    for tens, word in enumerate(("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"), 2)
}
_SCALES: Final = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_ORDINALS: Final = {"first": "1st", "second": "2nd", "third": "3rd"} | {
    word: f"{value}th"
    for value, word in enumerate(
        ("fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth"), 4
    )
}
_NUMBER_WORDS: Final = _SMALL | _TENS
_WORD: Final = "|".join(sorted((*_NUMBER_WORDS, *_SCALES), key=len, reverse=True))
_SPELLED: Final = re.compile(
    rf"\b(?:a (?=(?:{'|'.join(_SCALES)}|dozen)\b))?(?:{_WORD})s?(?:(?:[\s-]+(?:and\s+)?)(?:{_WORD})s?)*\b",
    re.IGNORECASE,
)
_ORDINAL: Final = re.compile(rf"\b(?:{'|'.join(list(_ORDINALS)[2:])})\b|\b(?:first|second)(?= of\b)", re.IGNORECASE)


def parse_chinese_numeral(run: str) -> frozenset[Decimal]:
    """Return the possible values of a run of Chinese numerals and digits; empty if the run is not a number.

    If the last digit has no unit, the next lower unit applies: 三千八 is 3,800. Digits without a unit are read both as
    one number and digit by digit: 二〇二五 is a year, 两三 is two or three.
    """
    run = run.replace("廿", "二十").lstrip("百千万亿")
    if _RUN.fullmatch(run) is None:
        return frozenset()
    tokens = _TOKEN.findall(run)
    if any(token in _UNITS or token in _GROUPS for token in tokens):
        return frozenset({_parse_with_units(tokens)})
    digits = [_parse_digit(token) for token in tokens]
    if len(digits) == 1:
        return frozenset(digits)
    return (
        frozenset({Decimal("".join(str(digit) for digit in digits)), *digits}) if _are_integers(digits) else frozenset()
    )


def _are_integers(digits: list[Decimal]) -> bool:
    return all(digit == digit.to_integral_value() for digit in digits)


def _parse_digit(token: str) -> Decimal:
    return Decimal(CHINESE_DIGITS[token]) if token in CHINESE_DIGITS else Decimal(token)


def _parse_with_units(tokens: list[str]) -> Decimal:
    total, section = Decimal(0), Decimal(0)
    pending: Decimal | None = None
    next_lower_unit, highest_unit = 1, 0
    for token in tokens:
        if token in _UNITS:
            section += (pending if pending is not None else 1) * _UNITS[token]
            pending, next_lower_unit = None, _UNITS[token] // 10
        elif token in _GROUPS:
            group, unit = section + (pending or 0), _GROUPS[token]
            total = (total + group) * unit if unit > highest_unit else total + group * unit
            section, pending, next_lower_unit, highest_unit = Decimal(0), None, unit // 10, unit
        else:
            pending = _parse_digit(token)
            next_lower_unit = 1 if pending == 0 else next_lower_unit
    return total + section + (pending or 0) * next_lower_unit


def replace_number_words(text: str) -> str:
    """Replace English number words with digits: `two hundred and fifty` becomes `250`.

    A standalone `one` is kept because it is often a pronoun. `first` and `second` are replaced only as days of a month.
    """
    text_with_digits = _SPELLED.sub(_to_digits, replace_case_lookalikes(text))
    return _ORDINAL.sub(lambda match: _ORDINALS[match[0].lower()], text_with_digits)


def _to_digits(match: re.Match[str]) -> str:
    words = match[0]
    return words if words.lower() in {"one", "ones"} else " ".join(map(str, _parse_english_numbers(words)))


def _parse_english_numbers(words: str) -> Iterator[int]:
    """Return the numbers in a sequence of number words, in order."""
    total, group, last_value = 0, 0, None
    for word in re.findall(r"[a-z]+", words.lower()):
        name = word if word in _NUMBER_WORDS or word in _SCALES else word.removesuffix("s")
        if name in {"and", "a"}:
            continue
        if name in _SCALES:
            scale = _SCALES[name]
            group = (group or 1) * scale
            if scale > 100:  # noqa: PLR2004 - a hundred stays in its group
                total, group = total + group, 0
            last_value = None
            continue
        value = _NUMBER_WORDS[name]
        continues_number = last_value is None or (last_value in _TENS.values() and 0 < value < 10)  # noqa: PLR2004 - a digit after tens, as in twenty-five
        if not continues_number:
            yield total + group
            total, group = 0, 0
        group += value
        last_value = value
    yield total + group
