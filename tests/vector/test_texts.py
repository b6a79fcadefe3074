"""Splitting of long texts into parts."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nomemory.server.indexing.vector.text_parts import split_text


def without_space(text: str) -> str:
    return "".join(text.split())


@given(
    text=st.text(alphabet=st.sampled_from("ab 。，.!\n我😀\u3000")) | st.text(),
    part_chars=st.integers(1, 20),
    parts_max=st.integers(1, 8),
)
@example(text=" " * 50 + "a" + "\n" * 50 + "b", part_chars=5, parts_max=2)
def test_every_character_is_in_one_part_in_order_up_to_the_limit(text: str, part_chars: int, parts_max: int) -> None:
    parts = split_text(text, part_chars, parts_max)
    joined = without_space("".join(parts))
    assert len(parts) <= parts_max
    assert all(part.strip() and len(part) <= part_chars for part in parts)
    if len(parts) < parts_max:
        assert joined == without_space(text)
    else:
        assert without_space(text).startswith(joined)


@given(st.text(min_size=1, max_size=800).filter(str.strip))
def test_a_text_that_fits_is_one_part(text: str) -> None:
    assert split_text(text, 800, 16) == [text.strip()]


@pytest.mark.parametrize("text", ["", "   ", "\n\u3000"])
def test_white_space_yields_no_parts(text: str) -> None:
    assert split_text(text, 10, 3) == []


def test_parts_end_where_sentences_end() -> None:
    text = "我从小就不吃辣椒，因为胃不好。今天去了火锅店！大家都笑了。"
    assert split_text(text, 20, 9) == ["我从小就不吃辣椒，因为胃不好。", "今天去了火锅店！大家都笑了。"]
    text = "她问：“你真的不吃辣吗？”然后我们笑了。"
    assert split_text(text, 14, 9) == ["她问：“你真的不吃辣吗？”", "然后我们笑了。"]
    text = "It costs 3.5 dollars. Is that much? I think it is."
    assert split_text(text, 24, 9) == ["It costs 3.5 dollars.", "Is that much?", "I think it is."]


def test_without_sentences_parts_end_between_words_and_without_words_anywhere() -> None:
    assert split_text("one two three four five six", 12, 9) == ["one two", "three four", "five six"]
    assert split_text("一二三，四五六，七八九", 8, 9) == ["一二三，", "四五六，七八九"]
    assert split_text("a" * 25, 10, 9) == ["a" * 9, "a" * 8, "a" * 8]


def test_text_beyond_the_limit_is_left_out() -> None:
    assert split_text("一。二。三。四。", 2, 3) == ["一。", "二。", "三。"]
