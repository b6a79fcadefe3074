"""Tests for the recognition of forwarded text by its format and introduction."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.text.quoted_text import find_quoted_spans


@pytest.mark.parametrize(
    ("content", "span", "author"),
    [
        (
            "群里发的你瞅瞅：【明天上午九点到五点停水，请提前储水】我记一下",
            "【明天上午九点到五点停水，请提前储水】",
            "群里发的你瞅瞅",
        ),
        ("转发：明天上午九点全小区停水，请储水", "明天上午九点全小区停水，请储水", "转发"),
        (
            "supplier's email: We can't deliver before the 12th.",
            "We can't deliver before the 12th.",
            "supplier's email",
        ),
        ("My landlord writes:\n\nThe rent is due on the 3rd.", "The rent is due on the 3rd.", "My landlord writes"),
        ("The mail I got from Ann says: we meet on Friday", "we meet on Friday", "The mail I got from Ann says"),
        ("Look. From my doctor: take iron twice a day\n\nok?", "take iron twice a day", "From my doctor"),
        ("> are you coming on Friday?\nyes", "> are you coming on Friday?", ""),
        ("Ana wrote this:\n```\nprint('hello')\n```", "```\nprint('hello')\n```", "Ana wrote this"),
        ("the mail\nDear Ana,\nwe are closed.\nBest\nTom", "Dear Ana,\nwe are closed.\nBest\nTom", ""),
    ],
)
def test_pasted_text_is_a_span_with_its_author(content: str, span: str, author: str) -> None:
    (quoted,) = find_quoted_spans(content)
    assert (content[quoted.start : quoted.end], quoted.author) == (span, author)


@pytest.mark.parametrize(
    "content",
    [
        "My packing list:\n1. socks\n2. shirts\n3. boots\n4. hat\n5. map\n6. rope",
        "Plan for the week:\n- Mon: gym\n- Tue: swim\n- Wed: rest\n- Thu: gym\n- Fri: swim\n- Sat: run",
        "Update: I moved to Basel last week and I like it",
        "Reminder: pick up the keys at 10:30 tomorrow",
        "我说：我真的不去了，太远了吧",
        "oh I should have said: my flight is on Friday, not on Thursday",
        "As I said: no more coffee for me, please",
        "本周安排：\n1. 周一体检\n2. 周二开会\n3. 周三出差",
    ],
)
def test_unquoted_text_is_not_marked_as_quoted(content: str) -> None:
    assert find_quoted_spans(content) == []


@given(st.text(st.sampled_from('ab：:>\n【】“”"` 转发说.1-'), max_size=60))
def test_spans_are_ordered_disjoint_and_within_the_text(content: str) -> None:
    end = 0
    for span in find_quoted_spans(content):
        assert end <= span.start < span.end <= len(content)
        end = span.end
