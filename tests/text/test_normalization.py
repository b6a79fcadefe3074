"""Tests for the normalization of characters, which is computed on demand."""

from __future__ import annotations

import subprocess
import sys
import unicodedata

import opencc

from nomemory.text import normalization
from nomemory.text.normalization import normalize

CODES = (*range(0x40000), *range(0xE0000, 0xE1000), *range(0x40000, sys.maxunicode + 1, 97))
"""Every code point that Unicode assigns, and some of the planes without characters."""
CHARACTERS = "".join(map(chr, CODES))
SURROGATES = range(0xD800, 0xE000)
HAN = (range(0x2E80, 0xA000), range(0xF900, 0xFB00), range(0x20000, 0x34000))


def table_of_all() -> dict[int, str]:
    """Return the normalized forms of all characters that change."""
    characters = [chr(code) for block in HAN for code in block]
    simplified = opencc.OpenCC("t2s").convert("\n".join(characters)).split("\n")
    table = {ord(old): new for old, new in zip(characters, simplified, strict=True) if len(new) == 1}
    for code in CODES:
        character = chr(code)
        if code not in SURROGATES and (unicodedata.decomposition(character) or character.casefold() != character):
            table[code] = normalization._fold_character(character)
    table |= {ord(character): normalization._fold_character(character) for character in normalization._EXTRA}
    table |= dict.fromkeys(SURROGATES, "\N{REPLACEMENT CHARACTER}")
    return {code: form.translate(table) for code, form in table.items()}


def test_lazy_normalization_equals_a_complete_table() -> None:
    expected = CHARACTERS.translate(table_of_all())
    assert normalize(CHARACTERS) == expected
    assert normalize(CHARACTERS) == expected, "the cached forms are equal"


def test_normalization_maps_each_character_to_one_and_is_idempotent() -> None:
    separated = normalize("0".join(CHARACTERS))
    once = separated[::2]
    assert separated[1::2] == "0" * (len(CHARACTERS) - 1), "each character between two zeros has one form"
    assert len(once) == len(CHARACTERS)
    assert normalize(once) == once


def test_normalization_preserves_spaces() -> None:
    forms = zip(CHARACTERS, normalize(CHARACTERS), strict=True)
    assert [character for character, form in forms if character.isspace() != form.isspace()] == []


def test_normalized_forms_are_computed_on_demand() -> None:
    code = (
        "from nomemory.text.normalization import _NORMALIZED_FORMS as forms, normalize; "
        "print(len(forms), normalize('漢A 漢'), len(forms))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "0 汉a 汉 3"
