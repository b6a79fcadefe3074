"""Tests for normalization and tokens: preserved offsets and equal forms of equivalent text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.text.analysis import MAX_WORD_CHARS, analyze_text, extract_ranking_terms, tokenize
from nomemory.text.normalization import normalize
from nomemory.text.stems import IRREGULAR_BASES
from nomemory.text.stop_words import STOP_WORDS

ANYTHING = st.text(st.characters(), max_size=60)


def texts(text: str) -> list[str]:
    return [token.text for token in tokenize(text)]


def term_texts(text: str) -> list[str]:
    return [term.text for term in extract_ranking_terms(tokenize(text))]


@given(ANYTHING)
def test_normalization_preserves_the_length(text: str) -> None:
    assert len(normalize(text)) == len(text)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("ＡＢＣ１２３", "abc123"),
        ("我從小就討厭辣椒，後來纔開始學", "我从小就讨厌辣椒，后来才开始学"),
        ("Café Ångström Łódź", "cafe angstrom lodz"),
        ("don’t “quote” ‘x’", "don't \"quote\" 'x'"),
        ("ｶﾀｶﾅ　。", "カタカナ 。"),
        ("ΟΔΟΣ", "οδος"),
    ],
)
def test_equivalent_spellings_are_normalized_equally(first: str, other: str) -> None:
    assert normalize(first) == normalize(other)


@given(ANYTHING)
def test_tokens_are_ordered_and_cover_all_visible_characters(text: str) -> None:
    tokens = tokenize(text)
    assert all(token.text and not any(map(str.isspace, token.text)) for token in tokens)
    ends = [0, *(token.end for token in tokens)]
    assert all(end <= token.start < token.end for end, token in zip(ends, tokens, strict=False))
    covered = {index for token in tokens for index in range(token.start, token.end)}
    left_out = "".join(c for index, c in enumerate(text) if index not in covered)
    assert texts(left_out) == [], "only spaces and invisible characters are not covered"


@pytest.mark.parametrize("text", ["한국어 좋아", "café crème brûlée", "Чай й ё", "がぎぐ パン", "tiếng Việt"])
def test_composed_and_decomposed_text_have_the_same_tokens(text: str) -> None:
    assert texts(unicodedata.normalize("NFD", text)) == texts(unicodedata.normalize("NFC", text))
    assert term_texts(unicodedata.normalize("NFD", text)) == term_texts(unicodedata.normalize("NFC", text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("我用iPhone15拍照", ["我", "用", "iphone15", "拍", "照"]),
        ("don't C++ 5:30", ["don", "'", "t", "c", "+", "+", "5", ":", "30"]),
        ("❤️👨‍👩‍👧", ["❤", "👨", "👩", "👧"]),
        ("exam\u00adple\u200b了", ["example", "了"]),
        ("コーヒー", ["コ", "ー", "ヒ", "ー"]),
        ("ก็ดี", ["ก", "็", "ด", "ี"]),
        ("\ud800\u0301x", ["\N{REPLACEMENT CHARACTER}", "x"]),
        ("\u0301\u200b", []),
    ],
)
def test_text_is_split_into_tokens(text: str, expected: list[str]) -> None:
    assert texts(text) == expected


def test_long_word_is_split() -> None:
    assert [len(text) for text in texts("x" * 150)] == [MAX_WORD_CHARS, MAX_WORD_CHARS, 150 - 2 * MAX_WORD_CHARS]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("不吃辣", ["不吃", "吃辣"]),
        ("不 吃，辣x椒", ["x"]),
        ("She was running to the stores", ["run", "store"]),
        ("Caroline's", ["carolin"]),
        ("the children went, her feet froze", ["child", "go", "foot", "freez"]),
        ("don't, won't: we won", ["win"]),
        ("我", []),
    ],
)
def test_terms_are_adjacent_bigrams_and_stems_of_content_words(text: str, expected: list[str]) -> None:
    assert term_texts(text) == expected


@given(
    st.one_of(
        ANYTHING,
        st.text("火锅ーが한กé\u0301\u200b'’ aBdontwi3,.\n", max_size=60),
        st.sampled_from(["x" * 200, "I won't", "don t"]),
    )
)
def test_combined_analysis_equals_separate_tokens_and_terms(text: str) -> None:
    assert analyze_text(text) == (texts(text), term_texts(text))


def test_irregular_forms_have_the_stem_of_their_base() -> None:
    assert all(term_texts(form) == term_texts(base) for form, base in IRREGULAR_BASES.items())
    assert IRREGULAR_BASES.keys().isdisjoint(IRREGULAR_BASES.values()), "a base must not be a form of another word"
    assert STOP_WORDS.isdisjoint([*IRREGULAR_BASES, *IRREGULAR_BASES.values()]), (
        "a word with content has no base without"
    )


def test_term_offsets_refer_to_the_original_text() -> None:
    text = "Ｒｕｎｎｉｎｇ 後來"
    assert [(term.text, text[term.start : term.end]) for term in extract_ranking_terms(tokenize(text))] == [
        ("后来", "後來"),
        ("run", "Ｒｕｎｎｉｎｇ"),
    ]
