"""Tests for the language of a text."""

from __future__ import annotations

import pytest

from nomemory.text.language import Language, detect_language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("我喜欢吃什么？", Language.CHINESE),
        ("我的 offer 是哪家的？", Language.CHINESE),
        ("What do I like?", Language.ENGLISH),
        ("", Language.ENGLISH),
    ],
)
def test_text_with_a_chinese_character_is_chinese(text: str, language: Language) -> None:
    assert detect_language(text) is language
