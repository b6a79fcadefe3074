"""Normalize the spelling of text: full-width forms, case, traditional Chinese, curly quotes.

`normalize`, for the index and for highlighting, maps character by character, removes Latin accents, and preserves
offsets. `fold_text`, for comparing whole texts, simplifies Chinese word by word, and keeps accents and most quotation
marks.
"""

from __future__ import annotations

import threading
import unicodedata
from typing import Final

import opencc
import regex  # type: ignore[import-untyped]  # the package has no type information

COMBINING = r"\u0300-\u036F"
"""Range of combining diacritical marks, which modify the preceding character."""

INVISIBLE = r"\p{Default_Ignorable_Code_Point}"
"""Invisible characters: joiners, variation selectors, soft hyphens, direction marks."""

_LAST_MAPPED = 0x33FFF
"""Highest code point with a normalized form."""

_SURROGATES = range(0xD800, 0xE000)

_HAN_BLOCKS = (range(0x2E80, 0xA000), range(0xF900, 0xFB00), range(0x20000, 0x34000))
"""Blocks of all Han characters up to Unicode 17. No character outside these blocks has a simplified form."""

_SIMPLIFICATION = "t2s"
"""OpenCC configuration for traditional to simplified Chinese."""

_APOSTROPHES = {"’": "'", "‘": "'"}
_QUOTES = _APOSTROPHES | {"ʼ": "'", "‛": "'", "“": '"', "”": '"', "„": '"', "‟": '"'}
_SEPARATORS = dict.fromkeys("\x1c\x1d\x1e\x1f", " ")
_UNDECOMPOSED = {"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ı": "i"}
_EXTRA = _QUOTES | _UNDECOMPOSED | _SEPARATORS
_PLAIN_QUOTES = str.maketrans(_APOSTROPHES)
_LATIN_LETTER = regex.compile(r"\p{Latin}")
_ACCENTS = regex.compile(rf"[{COMBINING}]*")
_MANY_MARKS: Final = regex.compile(r"(\p{M}{30})\p{M}++")
"""A run of more than 30 combining marks, which no language needs (Stream-Safe Text Format of Unicode)."""
_LONG_TEXT_CHARS: Final = 4_000
"""Number of characters up to which a text is normalized fast enough, whatever it contains."""
_LOOKALIKES: Final = str.maketrans("ıİſ", "iIs")
_MARKS_AND_INVISIBLE = regex.compile(rf"[{COMBINING}{INVISIBLE}]+")


class _Converters(threading.local):
    """Thread-local OpenCC converters, because a converter is not thread-safe."""

    def __init__(self) -> None:
        self.simplified = opencc.OpenCC(_SIMPLIFICATION)


_converters = _Converters()


def normalize(text: str) -> str:
    """Return the normalized text. Normalization is idempotent and preserves the length of the text.

    Characters without a single-character form (`ﬁ`, `ß`, `½`) stay unchanged. Lone surrogates become U+FFFD because
    search engines reject them.
    """
    return text.translate(_NORMALIZED_FORMS)


def fold_text(text: str) -> str:
    """Return a text for comparison: compatibility forms, lower case, simplified Chinese.

    The folded text may have a different length. Lone surrogates become question marks because the converter rejects
    them.
    """
    folded = unicodedata.normalize("NFKC", limit_combining_marks(text)).casefold().translate(_PLAIN_QUOTES)
    if folded.isascii():
        return folded
    return str(_converters.simplified.convert(folded.encode("utf-8", "replace").decode("utf-8")))


def limit_combining_marks(text: str) -> str:
    """Shorten runs of combining marks in a long text, because the time for their normalization is quadratic."""
    return text if len(text) <= _LONG_TEXT_CHARS else str(_MANY_MARKS.sub(r"\1", text))


def replace_case_lookalikes(text: str) -> str:
    """Replace the letters that case-insensitive patterns match as `i` or `s`. The length of the text is preserved."""
    return text.translate(_LOOKALIKES)


def remove_invisible_characters(text: str) -> str:
    """Return the NFC form of a text, without invisible characters. The returned text may have a different length."""
    visible_text: str = _MARKS_AND_INVISIBLE.sub("", unicodedata.normalize("NFC", limit_combining_marks(text)))
    return visible_text


def _to_compatible_form(character: str) -> str:
    return _choose_single_character(unicodedata.normalize("NFKC", character), character)


def _remove_accent(character: str) -> str:
    decomposed = unicodedata.normalize("NFD", character)
    is_accented = _LATIN_LETTER.match(decomposed) and _ACCENTS.fullmatch(decomposed, 1)
    return decomposed[0] if is_accented else character


def _to_lower_case(character: str) -> str:
    return _choose_single_character(character.casefold(), _choose_single_character(character.lower(), character))


def _choose_single_character(folded: str, otherwise: str) -> str:
    return folded if len(folded) == 1 else otherwise


def _fold_character(character: str) -> str:
    folded = _to_lower_case(_remove_accent(_to_compatible_form(character)))
    return _EXTRA.get(folded, folded)


def _simplify_character(character: str) -> str:
    if not any(ord(character) in block for block in _HAN_BLOCKS):
        return character
    return _choose_single_character(str(_converters.simplified.convert(character)), character)


def _normalize_character(character: str) -> str:
    folded = _fold_character(character)
    return folded if folded != character else _simplify_character(character)


class _NormalizedForms(dict[int, str | int]):
    """Cache of the normalized form of each code point, filled on first use.

    Most processes encounter only a few different characters. Filling the whole table would take a third of an indexer's
    startup time. Unchanged characters are also cached, because a miss costs more than a hit.
    """

    def __missing__(self, code: int) -> str | int:
        if code > _LAST_MAPPED:
            return code
        form = (
            "\N{REPLACEMENT CHARACTER}"
            if code in _SURROGATES
            else _normalize_character(_normalize_character(chr(code)))
        )
        self[code] = form if ord(form) != code else code
        return self[code]


_NORMALIZED_FORMS = _NormalizedForms()
