"""Maps different spellings to one form: full-width forms, case, traditional Chinese, curly quotes.

`normalise` is for the index and its highlights: it maps character by character, Latin accents too, so offsets survive.
`plain` is for comparing whole texts: it simplifies Chinese word by word, and keeps accents and most quotation marks.
"""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Iterator

import opencc
import regex  # type: ignore[import-untyped]  # it ships without types

COMBINING = r"\u0300-\u036F"
"""The general accents. They are part of the character before them."""

INVISIBLE = r"\p{Default_Ignorable_Code_Point}"
"""Invisible characters: joiners, variation selectors, soft hyphens, marks of direction."""

_LAST_FOLDED = 0x2FA1F
"""The last code point that has a compatibility form or a case; an assigned Han character may lie beyond."""

_BLOCK = 128
"""So many characters at once are looked at whether any of them has another form: most blocks have none."""

_HAN_BLOCKS = (range(0x2E80, 0xA000), range(0xF900, 0xFB00), range(0x20000, 0x34000))
"""Every Han character is in one of these, up to Unicode 17. Other characters there have no simplified form."""

_SIMPLIFICATION = "t2s"
"""OpenCC's name for traditional to simplified."""

_APOSTROPHES = {"’": "'", "‘": "'"}
_QUOTES = _APOSTROPHES | {"ʼ": "'", "‛": "'", "“": '"', "”": '"', "„": '"', "‟": '"'}
_SEPARATORS = dict.fromkeys("\x1c\x1d\x1e\x1f", " ")
_UNDECOMPOSED = {"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ı": "i"}
_EXTRA = _QUOTES | _UNDECOMPOSED | _SEPARATORS
_PLAIN_QUOTES = str.maketrans(_APOSTROPHES)
_LATIN_LETTER = regex.compile(r"\p{Latin}")
_ACCENTS = regex.compile(rf"[{COMBINING}]*")
_UNSEEN = regex.compile(rf"[{COMBINING}{INVISIBLE}]+")


class _Converters(threading.local):
    """A converter keeps state while it works, so each thread has its own."""

    def __init__(self) -> None:
        self.simplified = opencc.OpenCC(_SIMPLIFICATION)


_converters = _Converters()


def normalise(text: str) -> str:
    """Return the text as it is compared. As long as the original; normalising twice changes nothing more.

    Where a form has no counterpart of one character (`ﬁ`, `ß`, `½`) it stays as it is. Lone surrogates, which no
    engine takes, become U+FFFD.
    """
    return text.translate(_TABLE)


def plain(text: str) -> str:
    """Return the text as it is compared with another: compatible forms, lower case, simplified. Its length may change.

    Lone surrogates, which no converter takes, become question marks.
    """
    folded = unicodedata.normalize("NFKC", text).casefold().translate(_PLAIN_QUOTES)
    if folded.isascii():
        return folded
    return str(_converters.simplified.convert(folded.encode("utf-8", "replace").decode("utf-8")))


def visible(text: str) -> str:
    """Return the text composed and without invisible characters. Its length may change."""
    seen: str = _UNSEEN.sub("", unicodedata.normalize("NFC", text))
    return seen


def _compatible(character: str) -> str:
    return _if_one(unicodedata.normalize("NFKC", character), character)


def _unaccented(character: str) -> str:
    decomposed = unicodedata.normalize("NFD", character)
    is_accented = _LATIN_LETTER.match(decomposed) and _ACCENTS.fullmatch(decomposed, 1)
    return decomposed[0] if is_accented else character


def _lower(character: str) -> str:
    return _if_one(character.casefold(), _if_one(character.lower(), character))


def _if_one(folded: str, otherwise: str) -> str:
    return folded if len(folded) == 1 else otherwise


def _folded(character: str) -> str:
    folded = _lower(_unaccented(_compatible(character)))
    return _EXTRA.get(folded, folded)


def _simplified() -> dict[str, str]:
    """Map each traditional character to its simplified form, in one call: the converter's cost is per call."""
    characters = [chr(code) for block in _HAN_BLOCKS for code in block]
    converted = opencc.OpenCC(_SIMPLIFICATION).convert("\n".join(characters)).split("\n")
    return {old: new for old, new in zip(characters, converted, strict=True) if old != new and len(new) == 1}


def _changes(character: str) -> bool:
    """Return whether a character has another form at all. Most have none."""
    return bool(unicodedata.decomposition(character)) or character.casefold() != character


def _changing() -> Iterator[str]:
    """Return the characters that have another form, in order."""
    for first in range(0, _LAST_FOLDED + 1, _BLOCK):
        block = "".join(map(chr, range(first, first + _BLOCK)))
        if not unicodedata.is_normalized("NFKD", block) or block.casefold() != block:
            yield from filter(_changes, block)


def _table() -> dict[int, str]:
    candidates = list(_changing())
    folded = {character: _folded(character) for character in [*candidates, *_EXTRA]}
    table = {ord(character): to for character, to in (_simplified() | folded).items()}
    table |= dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}")
    return {code: to.translate(table) for code, to in table.items()}


_TABLE = _table()
