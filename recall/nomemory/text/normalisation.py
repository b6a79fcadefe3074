"""Maps different spellings to one form: full-width forms, case, traditional Chinese, curly quotes.

`normalise` is for the index and its highlights: it maps character by character, Latin accents too, so offsets survive.
`plain` is for comparing whole texts: it simplifies Chinese word by word, and keeps accents and most quotation marks.
"""

from __future__ import annotations

import threading
import unicodedata

import opencc
import regex  # type: ignore[import-untyped]  # it ships without types

COMBINING = r"\u0300-\u036F"
"""The general accents. They are part of the character before them."""

INVISIBLE = r"\p{Default_Ignorable_Code_Point}"
"""Invisible characters: joiners, variation selectors, soft hyphens, marks of direction."""

_LAST_MAPPED = 0x33FFF
"""No character beyond has another form."""

_SURROGATES = range(0xD800, 0xE000)

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
    return text.translate(_FORMS)


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


def _simplified(character: str) -> str:
    if not any(ord(character) in block for block in _HAN_BLOCKS):
        return character
    return _if_one(str(_converters.simplified.convert(character)), character)


def _mapped(character: str) -> str:
    folded = _folded(character)
    return folded if folded != character else _simplified(character)


class _Forms(dict[int, str | int]):
    """The form of each character that was seen, by code points; another's is looked up when it is met first.

    Most processes meet few: to look up all beforehand would take a third of the time in which an indexer starts.
    Characters that stay as they are have an entry, too: to miss one costs more than to find it.
    """

    def __missing__(self, code: int) -> str | int:
        if code > _LAST_MAPPED:
            return code
        form = "\N{REPLACEMENT CHARACTER}" if code in _SURROGATES else _mapped(_mapped(chr(code)))
        self[code] = form if ord(form) != code else code
        return self[code]


_FORMS = _Forms()
