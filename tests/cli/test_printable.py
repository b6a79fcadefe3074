"""Tests for the escaping of terminal control characters in message content."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from nomemory.cli.terminal import escape_json, replace_control_characters, to_single_line

BIDI = {*map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))}


def drives(text: str, allowed: str = "") -> bool:
    """Return whether a text contains characters that control a terminal."""
    return any((unicodedata.category(char) == "Cc" and char not in allowed) or char in BIDI for char in text)


@given(st.text())
def test_control_characters_are_replaced_at_equal_length(text: str) -> None:
    shown = replace_control_characters(text)
    assert len(shown) == len(text)
    assert not drives(shown, "\n\t")


@given(st.text())
def test_one_line_returns_one_line_of_the_same_length(text: str) -> None:
    shown = to_single_line(text)
    assert len(shown) == len(text)
    assert not drives(shown)
    assert len(shown.splitlines()) <= 1


@given(st.text())
def test_json_control_characters_are_escaped_without_changing_the_value(text: str) -> None:
    written = escape_json(json.dumps(text, ensure_ascii=False))
    assert json.loads(written) == text
    assert not drives(written)


def test_ordinary_text_is_printed_unchanged() -> None:
    for text in ("我不吃辣。\n😀 5:30", "naïve C++ \t x", "👩‍👩‍👧 café", "مرحبا"):
        assert replace_control_characters(text) == text
