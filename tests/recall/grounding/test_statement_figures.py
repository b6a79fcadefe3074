"""Tests that composed statements contain only numbers and names of their quotes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recall.retrieved_messages import findings, new_question, ranking

from nomemory.recall.grounding.citations import verify_statements
from nomemory.recall.grounding.computation import verify_equation
from nomemory.recall.grounding.conclusion import verify_draft_view
from nomemory.recall.grounding.statement_figures import FigureChecker
from nomemory.recall.model.evidence import RetrievedMessage, RetrievedMessages
from nomemory.recall.model.memory_view import DraftCitation, DraftStatement, DraftView, Section, Verdict
from nomemory.recall.model.note import NoteKind
from nomemory.recall.model.question import Role

SENT = datetime(2025, 5, 2, 10, tzinfo=UTC)
"""A Friday."""


def shown(text: str, *quotes: str, computed: tuple[str, ...] = (), question: str = "What is it?") -> str:
    """Return the checked text of a statement whose quotes are complete messages."""
    retrieval = RetrievedMessages()
    retrieval.add_messages(RetrievedMessage(f"m{at}", SENT, Role.USER, quote) for at, quote in enumerate(quotes))
    citations = tuple(DraftCitation(f"m{at}", quote) for at, quote in enumerate(quotes))
    draft = DraftStatement(Section.PROFILE, text, citations, computed)
    view, _ = verify_statements([draft], retrieval, FigureChecker(new_question(question), retrieval))
    (statement,) = view.list_statements()
    return statement.text


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("The deposit is £200.", "deposit is £200"),
        ("房租 3,800 元", "房租三千八"),
        ("The rent is 3,800 yuan", "房租三千八"),
        ("The workshop opens at 10:30.", "it opens at half past ten"),
        ("会议在 15:00", "下午三点开会"),
        ("Moved on 1 May 2025.", "we moved yesterday"),
        ("Said on Friday 2 May 2025 that it is broken", "it is broken"),
        ("The exam is on 21 May 2025", "exam on the 21st"),
        ("下周三（5月7日）体检", "下周三体检"),
        ("2025 年 5 月 2 日起每天六十板", "从今天起每天60板"),
        ("Two children", "my 2 children"),
        ("The number is 138 0000 1234", "call 13800001234"),
        ("Lives with Ana in Basel", "lives with ana in basel"),
        ("Lives in Basel", "住在巴塞尔"),
        ("Has one brother", "a brother"),
    ],
)
def test_numbers_in_the_quotes_are_accepted_in_any_notation(text: str, quote: str) -> None:
    assert shown(text, quote) == text


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("The deposit is £2000.", "deposit is £200"),
        ("房租 3,008 元", "房租三千八"),
        ("It leaves at 3 pm", "leaving at 3 am"),
        ("Moved on 28 April 2025.", "we moved yesterday"),
        ("The exam is on 22 May", "exam on the 21st of May"),
        ("The exam is on Thursday 21 May 2026", "exam on 21 May"),
        ("下周三（5月8日）体检", "下周三体检"),
        ("Lives in Berlin", "I live in Basel"),
        ("Met Ben at the station", "met Ana at the station"),
        ("读过《活着》", "读过《兄弟》"),
        ("Two children", "my three children"),
    ],
)
def test_text_without_support_in_the_quotes_is_replaced_by_the_quotes(text: str, quote: str) -> None:
    assert shown(text, quote) == quote


def test_first_word_is_checked_if_it_is_a_name_elsewhere() -> None:
    retrieval = RetrievedMessages()
    contents = ("Ana lives in Lyon", "and then Ben came")
    retrieval.add_messages(RetrievedMessage(f"m{at}", SENT, Role.USER, content) for at, content in enumerate(contents))
    draft = DraftStatement(Section.PROFILE, "Ben lives in Lyon", (DraftCitation("m0", "Ana lives in Lyon"),))
    view, notes = verify_statements([draft], retrieval, FigureChecker(new_question("Who?"), retrieval))
    assert [statement.text for statement in view.list_statements()] == ["Ana lives in Lyon"]
    assert [(note.kind, note.count) for note in notes] == [(NoteKind.QUOTED_INSTEAD, 1)]


def test_names_in_the_question_need_no_quote() -> None:
    assert shown("Marta moved to Basel", "she moved to Basel", question="Where is Marta?") == "Marta moved to Basel"


def test_number_may_be_the_count_of_quotes() -> None:
    quotes = ("sold the maple one", "sold the dark one", "sold the lion")
    assert shown("Three violins sold", *quotes) == "Three violins sold"
    assert shown("Four violins sold", *quotes) == " … ".join(quotes)


@pytest.mark.parametrize(
    ("text", "quote", "equation", "passes"),
    [
        ("Paid 1,550 in all", "first 1200, then 350", "1200 + 350 = 1550", True),
        ("Paid 1,550 in all", "first 1200, then 350", "", False),
        ("Paid 1,560 in all", "first 1200, then 350", "1200 + 350 = 1560", False),
        ("Paid 1,650 in all", "first 1200, then 350", "1200 + 450 = 1650", False),
        ("一年 45,600 元", "房租三千八", "3800 * 12 = 45600", True),
        ("9 days later", "exam on the 11th", "2025-05-11 - 2025-05-02 = 9 days", True),
        ("Works 8.5 hours", "from 9:00 to 17:30", "17:30 - 09:00 = 8.5 hours", True),
        ("Is 36", "born in 1989", "2025 - 1989 = 36", True),
        ("Two fruits", "apples and pears", "1 + 1 = 2", True),
        ("Five fruits", "apples and pears", "1 + 1 + 1 + 1 + 1 = 5", False),
    ],
)
def test_equations_are_recomputed_from_numbers_in_the_quotes(
    text: str, quote: str, equation: str, *, passes: bool
) -> None:
    assert (shown(text, quote, computed=(equation,)) == text) is passes


@pytest.mark.parametrize(
    "equation",
    [
        "1 + 1 = 3",
        "__import__('os') = 1",
        "9 ** 9 = 1",
        "1 / 0 = 1",
        "= 2",
        "2",
        "(" * 50 + "1 = 1",
        "1 = 1 = 1",
        "2 days = 3",
        "30 / 200 = 60%",
        "1 / 8 = 14%",
    ],
)
def test_invalid_or_false_equations_are_rejected(equation: str) -> None:
    assert verify_equation(equation) is None


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_sums_are_recomputed(first: int, other: int) -> None:
    assert verify_equation(f"{first} + {other} = {first + other}")
    assert verify_equation(f"{first} + {other} = {first + other + 1}") is None


@given(st.text(max_size=60))
def test_arbitrary_text_is_accepted_as_an_equation(text: str) -> None:
    verify_equation(text)
    verify_equation(f"{text}=1")


WORDS = st.sampled_from(
    ["paid", "房租", "on", "三千八", "£200", "2,000", "21 May", "下午三点", "half past ten", "12%", "5月7日"]
)


@given(st.lists(WORDS, min_size=1, max_size=8), st.integers(0, 10**9))
def test_statement_with_all_numbers_in_its_quote_is_accepted(words: list[str], number: int) -> None:
    text = " ; ".join([*words, str(number)])
    assert shown(text, f"so {text} it is") == text


def test_only_composed_drafts_are_checked() -> None:
    message = RetrievedMessage("m0", SENT, Role.USER, "the deposit is £200")
    statement = DraftStatement(Section.PROFILE, "It is £2000", (DraftCitation("m0", "deposit is £200"),))
    for composed, text in ((False, "It is £2000"), (True, "deposit is £200")):
        draft = DraftView((statement,), Verdict.SUPPORTED, is_model_written=composed)
        synthesis = verify_draft_view(new_question("How much?"), draft, findings(ranking(message)))
        assert [item.text for item in synthesis.view.list_statements()] == [text]
