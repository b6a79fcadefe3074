"""Normalisation and tokens: offsets survive, and what people see as the same text is the same."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.text.analysis import MAX_WORD_CHARS, analyze_text, extract_ranking_terms, tokenize
from nomemory.text.normalization import normalize
from nomemory.text.stems import IRREGULAR_BASES
from nomemory.text.stop_words import STOP_WORDS

ANYTHING = st.text(st.characters(), max_size=60)
EVERY_CHARACTER = [chr(code) for code in range(sys.maxunicode + 1)]


def texts(text: str) -> list[str]:
    return [token.text for token in tokenize(text)]


def term_texts(text: str) -> list[str]:
    return [term.text for term in extract_ranking_terms(tokenize(text))]


def test_every_character_becomes_exactly_one_and_stays_what_it_became() -> None:
    once = [normalize(character) for character in EVERY_CHARACTER]
    assert {len(character) for character in once} == {1}
    assert [normalize(character) for character in once] == once


def test_normalising_neither_makes_nor_loses_a_space() -> None:
    changed = [c for c in EVERY_CHARACTER if c.isspace() != normalize(c).isspace()]
    assert changed == []


@given(ANYTHING)
def test_normalising_keeps_the_length(text: str) -> None:
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
def test_spellings_that_read_alike_are_normalised_alike(first: str, other: str) -> None:
    assert normalize(first) == normalize(other)


@given(ANYTHING)
def test_tokens_stand_in_order_where_they_say_and_cover_all_that_can_be_seen(text: str) -> None:
    tokens = tokenize(text)
    assert all(token.text and not any(map(str.isspace, token.text)) for token in tokens)
    ends = [0, *(token.end for token in tokens)]
    assert all(end <= token.start < token.end for end, token in zip(ends, tokens, strict=False))
    covered = {index for token in tokens for index in range(token.start, token.end)}
    left_out = "".join(c for index, c in enumerate(text) if index not in covered)
    assert texts(left_out) == [], "only spaces and what shows nothing"


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
def test_tokens(text: str, expected: list[str]) -> None:
    assert texts(text) == expected


def test_a_long_word_is_split() -> None:
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
def test_terms_are_pairs_that_touch_and_stems_of_words_with_content(text: str, expected: list[str]) -> None:
    assert term_texts(text) == expected


@given(
    st.one_of(
        ANYTHING,
        st.text("火锅ーが한กé\u0301\u200b'’ aBdontwi3,.\n", max_size=60),
        st.sampled_from(["x" * 200, "I won't", "don t"]),
    )
)
def test_the_streams_are_what_tokens_and_terms_are_made_of(text: str) -> None:
    assert analyze_text(text) == (texts(text), term_texts(text))


def test_every_form_of_an_irregular_word_becomes_what_its_base_becomes() -> None:
    assert all(term_texts(form) == term_texts(base) for form, base in IRREGULAR_BASES.items())
    assert IRREGULAR_BASES.keys().isdisjoint(IRREGULAR_BASES.values()), "a base is no form of another word"
    assert STOP_WORDS.isdisjoint([*IRREGULAR_BASES, *IRREGULAR_BASES.values()]), (
        "a word with content has no base without"
    )


def test_a_term_knows_where_it_stands_in_the_original() -> None:
    text = "Ｒｕｎｎｉｎｇ 後來"
    assert [(term.text, text[term.start : term.end]) for term in extract_ranking_terms(tokenize(text))] == [
        ("后来", "後來"),
        ("run", "Ｒｕｎｎｉｎｇ"),
    ]
