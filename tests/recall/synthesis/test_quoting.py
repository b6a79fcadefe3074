"""Tests for the quoted passage of a message."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nomemory.recall.synthesis.quotation import MAX_PASSAGE_CHARS, select_passage
from nomemory.text.question_analysis import QuestionAnalysis

TEXT = st.lists(
    st.sampled_from(["The lamp is broken. ", "灯坏了。", "and so on ", "\n", "x" * 90, "🪔", "1.5 "]), max_size=80
)


def test_message_is_quoted_completely() -> None:
    content = "  The soft ones are fine. The runny ones, not yet!\nAsk me in May.  "
    assert select_passage(content, QuestionAnalysis("Which ones?")) == content.strip()


def test_very_long_message_is_quoted_around_its_best_sentence() -> None:
    before = [f"On day {number} we crossed another valley and camped." for number in range(40)]
    after = [f"On night {number} it rained on the tents again." for number in range(40)]
    content = " ".join([*before, "The blue stove broke at the pass.", *after])
    quoted = select_passage(content, QuestionAnalysis("What happened to the stove?"))
    assert "The blue stove broke at the pass." in quoted
    assert quoted in content
    assert MAX_PASSAGE_CHARS / 2 < len(quoted) <= MAX_PASSAGE_CHARS
    assert quoted.startswith(("The ", "On "))
    assert quoted.endswith(".")


def test_long_single_sentence_message_is_truncated_after_its_start() -> None:
    content = "一" + "路走" * 500
    assert select_passage(content, QuestionAnalysis("去哪了？")) == content[:MAX_PASSAGE_CHARS]


@given(TEXT.map("".join), st.text(max_size=40))
def test_quote_is_verbatim_and_limited(content: str, question: str) -> None:
    quoted = select_passage(content, QuestionAnalysis(question))
    assert quoted in content
    assert len(quoted) <= MAX_PASSAGE_CHARS
    assert bool(quoted) == bool(content.strip())
