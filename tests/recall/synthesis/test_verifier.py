"""Tests that only retrieved messages are cited and only their exact content is quoted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recall.synthesis.independent_check import check

from nomemory.recall.grounding.citations import (
    MAX_CITATIONS,
    MAX_QUOTE_CHARS,
    MAX_STATEMENTS,
    MAX_TEXT_CHARS,
    verify_statements,
)
from nomemory.recall.model.evidence import RetrievedMessage, RetrievedMessages
from nomemory.recall.model.memory_view import DraftCitation, DraftStatement, MemoryView, Section, Verdict, VerifiedView
from nomemory.recall.model.question import Role
from nomemory.text.terms import extract_terms

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SPICY = "小炒肉就算了，我从小不吃辣，一口下去胃能疼一晚上。"
NURSE = "I'm a staff nurse 👩🏽‍⚕️ in Leeds. I love my job."


def retrieved(*contents: str) -> RetrievedMessages:
    retrieval = RetrievedMessages()
    retrieval.add_messages(
        RetrievedMessage(f"m{number}", NOW + timedelta(days=number), Role.USER, content)
        for number, content in enumerate(contents, 1)
    )
    return retrieval


def draft(text: str, *citations: tuple[str, str], section: Section = Section.PROFILE) -> DraftStatement:
    return DraftStatement(section, text, tuple(DraftCitation(*citation) for citation in citations))


def wrong(view: MemoryView, retrieval: RetrievedMessages) -> list[str]:
    return check(VerifiedView(view, Verdict.SUPPORTED), {message.message_id: message for message in retrieval})


def test_exact_quote_is_kept_with_offsets_and_date() -> None:
    view, notes = verify_statements(
        [draft("不吃辣", ("m1", "我从小不吃辣"), section=Section.PREFERENCES)], retrieved(SPICY)
    )
    ((citation,),) = [statement.citations for statement in view.preferences]
    assert (citation.message_id, citation.quote) == ("m1", "我从小不吃辣")
    assert (citation.start, citation.end) == (7, 13)
    assert citation.ts == NOW + timedelta(days=1)
    assert notes == ()


def test_quote_offsets_are_code_points() -> None:
    view, _ = verify_statements([draft("Lives in Leeds", ("m1", "in Leeds"))], retrieved(NURSE))
    ((citation,),) = [statement.citations for statement in view.profile]
    assert NURSE[citation.start : citation.end] == "in Leeds"


@pytest.mark.parametrize(
    "quote",
    ["我从小不吃 辣", "我从小不吃辣!", "I’m a staff nurse", "i'm a staff nurse", "我從小不吃辣", " \u200b我从小不吃辣"],
)
def test_inexact_quote_is_removed(quote: str) -> None:
    view, notes = verify_statements([draft("x", ("m1", quote)), draft("y", ("m2", quote))], retrieved(SPICY, NURSE))
    assert view.list_statements() == ()
    assert "m1" in notes[0].text


def test_unretrieved_citation_is_removed_without_repeating_its_id() -> None:
    view, notes = verify_statements([draft("secret", ("other-user-0001", "我从小不吃辣"))], retrieved(SPICY))
    assert view.list_statements() == ()
    assert "other-user" not in " ".join(note.text for note in notes)
    assert len(notes) == 2


def test_only_invalid_citations_of_a_statement_are_removed() -> None:
    view, notes = verify_statements(
        [draft("护士", ("m9", "x"), ("m2", "nobody said so"), ("m2", "staff nurse"))], retrieved(SPICY, NURSE)
    )
    (statement,) = view.list_statements()
    assert [citation.quote for citation in statement.citations] == ["staff nurse"]
    assert len(notes) == 2


def test_notes_contain_no_content() -> None:
    _, notes = verify_statements(
        [draft("用户很爱吃辣", ("m1", "我很爱吃辣")), draft("a millionaire", ("zz", "I own Leeds"))],
        retrieved(SPICY, NURSE),
    )
    assert notes
    for word in ("辣", "millionaire", "Leeds", "zz"):
        assert word not in " ".join(note.text for note in notes)


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("从小不吃辣", "我从小不吃辣"),
        ("用户从小不吃辣", "我从小不吃辣"),
        ("User is a staff nurse in Leeds", "I'm a staff nurse 👩🏽‍⚕️ in Leeds"),
    ],
)
def test_plain_string_is_cited_with_the_matching_clause(text: str, quote: str) -> None:
    view, _ = verify_statements([draft(text)], retrieved("好的", SPICY, NURSE))
    (statement,) = view.list_statements()
    assert [citation.quote for citation in statement.citations] == [quote]


@pytest.mark.parametrize(
    "text",
    [
        "用户从小吃辣",  # the opposite of the quote
        "Is not a staff nurse in Leeds",
        "A staff nurse in Leeds since 2016",  # a number that is not in the message
        "Allergic to penicillin",
        "The user",
        "好",
    ],
)
def test_unsupported_plain_string_is_dropped(text: str) -> None:
    view, notes = verify_statements([draft(text), draft(text, ("m2", ""), ("m3", ""))], retrieved("好的", SPICY, NURSE))
    assert view.list_statements() == ()
    assert any("without evidence" in note.text for note in notes)


def test_clause_is_cited_at_its_own_start() -> None:
    view, _ = verify_statements([draft("我吃鱼")], retrieved("没人说我吃鱼。我吃鱼"))
    ((citation,),) = [statement.citations for statement in view.list_statements()]
    assert (citation.quote, citation.start, citation.end) == ("我吃鱼", 3, 6)


def test_empty_quote_is_replaced_by_the_best_clause_of_its_message() -> None:
    view, _ = verify_statements([draft("a staff nurse", ("m1", " "))], retrieved(NURSE))
    (statement,) = view.list_statements()
    assert statement.citations[0].quote.startswith("I'm a staff nurse")


def test_equal_statements_are_merged() -> None:
    twice = [
        draft("不吃辣", ("m1", "不吃辣"), ("m1", "不吃辣"), section=Section.PREFERENCES),
        draft(" 不吃辣 ", ("m1", "我从小不吃辣"), section=Section.CONSTRAINTS),
    ]
    view, _ = verify_statements(twice, retrieved(SPICY))
    (statement,) = view.list_statements()
    assert view.preferences == (statement,)
    assert [citation.quote for citation in statement.citations] == ["不吃辣", "我从小不吃辣"]


def test_statement_counts_and_lengths_are_limited() -> None:
    content = "词" * 5_000
    many = [draft(f"{number} " + "x" * 2_000, *[("m1", "词" * 3_000)] * 40) for number in range(200)]
    view, notes = verify_statements(many, retrieved(content))
    assert len(view.list_statements()) == MAX_STATEMENTS
    assert all(len(statement.text) == MAX_TEXT_CHARS for statement in view.list_statements())
    assert all(len(statement.citations) <= MAX_CITATIONS for statement in view.list_statements())
    assert all(len(statement.citations[0].quote) == MAX_QUOTE_CHARS for statement in view.list_statements())
    assert "150" in notes[-1].text


def test_lone_surrogates_in_a_statement_are_replaced() -> None:
    view, _ = verify_statements([draft("nurse \ud83d", ("m1", "staff nurse"))], retrieved(NURSE))
    (statement,) = view.list_statements()
    assert statement.text.encode()


LETTERS = st.sampled_from("我不吃辣能微 abI'm.,，。?？\n“”😀\U0001f469\u200d\u0301\ud83d\udc69")
CONTENTS = st.lists(st.text(LETTERS, max_size=30) | st.text(max_size=30), min_size=1, max_size=4)


@st.composite
def situations(draw: st.DrawFn) -> tuple[RetrievedMessages, list[DraftStatement]]:
    contents = draw(CONTENTS)
    quotes = st.text(LETTERS, max_size=8) | st.sampled_from(contents).flatmap(_parts)
    ids = st.sampled_from([f"m{number}" for number in range(6)]) | st.text(max_size=5)
    citations = st.builds(DraftCitation, ids, quotes)
    texts = st.text(LETTERS, max_size=20) | st.sampled_from(contents)
    statements = st.builds(DraftStatement, st.sampled_from(Section), texts, st.lists(citations, max_size=4).map(tuple))
    return retrieved(*contents), draw(st.lists(statements, max_size=8))


def _parts(content: str) -> st.SearchStrategy[str]:
    ends = st.integers(0, len(content))
    return st.tuples(ends, ends).map(lambda pair: content[min(pair) : max(pair)])


@given(situations())
def test_verified_statements_quote_retrieved_messages(state: tuple[RetrievedMessages, list[DraftStatement]]) -> None:
    retrieval, drafts = state
    view, _ = verify_statements(drafts, retrieval)
    assert wrong(view, retrieval) == []
    assert len({statement.text for statement in view.list_statements()}) == len(view.list_statements())


@given(situations())
def test_every_exact_quote_is_kept(state: tuple[RetrievedMessages, list[DraftStatement]]) -> None:
    retrieval, drafts = state
    view, _ = verify_statements(drafts, retrieval)
    kept = {citation.quote for statement in view.list_statements() for citation in statement.citations}
    for item in drafts:
        for citation in item.citations:
            message = retrieval.get_message(citation.message_id)
            if message and extract_terms(citation.quote) and citation.quote in message.content and item.text.strip():
                assert citation.quote in kept


@pytest.mark.parametrize("quote", ["I", ".", "\u200d", "，", "the"])
def test_a_quote_without_content_words_is_removed(quote: str) -> None:
    message = RetrievedMessage("m", datetime(2025, 1, 1, tzinfo=UTC), Role.USER, "I like the rain，so I walked.\u200d")
    retrieval = RetrievedMessages()
    retrieval.add_messages([message])
    draft = DraftStatement(Section.PROFILE, "The user is a murderer", (DraftCitation("m", quote),))
    view, _ = verify_statements([draft], retrieval)
    assert view.list_statements() == ()
