"""Tests for the verification, order and marks of statements in an answer."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from recall.retrieved_messages import findings, new_question, quoting, ranking, retrieved_message
from recall.synthesis.independent_check import check

from nomemory.recall.grounding.conclusion import verify_draft_view
from nomemory.recall.model.evidence import MessageRelation, RetrievedMessage
from nomemory.recall.model.memory_view import (
    Attribution,
    DraftCitation,
    DraftConflict,
    DraftStatement,
    DraftView,
    Section,
    Verdict,
    VerifiedView,
)
from nomemory.recall.model.question import Role

WORKSHOP = retrieved_message("old", "My workshop is in the barn behind the mill.", 30)
MOVED = retrieved_message("new", "The workshop moved: it is in the old bakery now.", 3)
OTHER = retrieved_message("other", "Cats sleep in the sun.", 20)
SAME_THING = MessageRelation("old", "new", 3.0, 0.5)
CONTENTS = ["我搬到海边了", "I keep bees.", "I keep bees.", "is it warm", "Bees:\n\nten hives", "🐝", " ok "]
MESSAGES = st.lists(
    st.builds(
        lambda content, days, role, name: (content, days, role, name),
        st.sampled_from(CONTENTS),
        st.integers(0, 5),
        st.sampled_from([Role.USER, Role.ASSISTANT]),
        st.sampled_from(["", "Ravi"]),
    ),
    min_size=1,
    max_size=6,
).map(lambda some: [retrieved_message(f"m{n}", *item) for n, item in enumerate(some)])


def cited(synthesis: VerifiedView) -> list[str]:
    return [citation.message_id for statement in synthesis.view.list_statements() for citation in statement.citations]


def test_quotes_are_ordered_by_relevance() -> None:
    evidence_findings = findings(ranking(WORKSHOP, OTHER, MOVED))
    for drafts, order in (
        (quoting(WORKSHOP, OTHER, MOVED), ["old", "other", "new"]),
        (quoting(MOVED, WORKSHOP, OTHER), ["new", "old", "other"]),
    ):
        assert cited(verify_draft_view(new_question("Where is my workshop?"), drafts, evidence_findings)) == order


def test_newest_quote_is_first_within_a_topic() -> None:
    evidence_findings = findings(ranking(WORKSHOP, OTHER, MOVED), [SAME_THING])
    drafts = quoting(WORKSHOP, OTHER, MOVED)
    assert cited(verify_draft_view(new_question("Where is my workshop?"), drafts, evidence_findings)) == [
        "new",
        "old",
        "other",
    ]


def test_newest_quote_is_first_for_questions_about_the_present() -> None:
    evidence_findings = findings(ranking(WORKSHOP, OTHER, MOVED))
    drafts = quoting(WORKSHOP, OTHER, MOVED)
    assert cited(verify_draft_view(new_question("Where is my workshop now?"), drafts, evidence_findings)) == [
        "new",
        "other",
        "old",
    ]


def test_model_statements_are_ordered_newest_first() -> None:
    evidence_findings = findings(ranking(WORKSHOP, OTHER, MOVED))
    drafts = replace(quoting(WORKSHOP, OTHER, MOVED), verdict=Verdict.SUPPORTED)
    assert cited(verify_draft_view(new_question("Where is my workshop?"), drafts, evidence_findings)) == [
        "new",
        "other",
        "old",
    ]


def test_correction_inherits_the_relevance_of_the_corrected_message() -> None:
    lyon = replace(retrieved_message("lyon", "I live in Lyon.", 9), retracted_by="basel")
    basel = replace(retrieved_message("basel", "Correction: I moved to Basel.", 2), retracts=("lyon",))
    evidence_findings = findings(ranking(basel, lyon), sufficiency=0.0)
    synthesis = verify_draft_view(new_question("Where do I live?"), quoting(basel, lyon), evidence_findings)
    assert synthesis.verdict is Verdict.POSSIBLE
    assert cited(synthesis) == ["basel", "lyon"]
    assert (
        verify_draft_view(new_question("Which car do I drive?"), quoting(basel, lyon), evidence_findings).verdict
        is Verdict.INSUFFICIENT
    )


def test_superseded_statements_are_marked_and_kept() -> None:
    evidence_findings = findings(ranking(WORKSHOP, MOVED, OTHER), [SAME_THING])
    view = verify_draft_view(
        new_question("Where is my workshop?"), quoting(WORKSHOP, MOVED, OTHER), evidence_findings
    ).view
    marks = {statement.citations[0].message_id: statement.superseded_by for statement in view.list_statements()}
    assert marks == {"old": "new", "new": "", "other": ""}


def test_retracted_message_is_marked_and_does_not_answer_alone() -> None:
    wrong = replace(WORKSHOP, retracted_by="new")
    both, alone = findings(ranking(MOVED, wrong)), findings(ranking(wrong))
    view = verify_draft_view(new_question("Where is my workshop?"), quoting(wrong, MOVED), both).view
    assert {statement.citations[0].message_id: statement.superseded_by for statement in view.list_statements()} == {
        "old": "new",
        "new": "",
    }
    for model_verdict in (None, Verdict.SUPPORTED):
        drafts = replace(quoting(wrong), verdict=model_verdict)
        assert verify_draft_view(new_question("Where is my workshop?"), drafts, alone).verdict is Verdict.INSUFFICIENT
        drafts = replace(quoting(wrong, MOVED), verdict=model_verdict)
        assert verify_draft_view(new_question("Where is my workshop?"), drafts, both).verdict is Verdict.SUPPORTED


def test_retracted_message_does_not_contradict_others() -> None:
    never, now = (
        retrieved_message("never", "I have never kept bees.", 30),
        retrieved_message("now", "The bees I keep swarmed.", 3),
    )
    related = [MessageRelation("never", "now", 3.0, 0.9)]
    verdicts = []
    for earlier in (never, replace(never, retracted_by="now")):
        sides = (DraftCitation("never", never.content), DraftCitation("now", now.content))
        draft = replace(quoting(now, earlier), verdict=Verdict.CONFLICTING, conflicts=(DraftConflict(*sides),))
        verdicts.append(
            verify_draft_view(new_question("Do I keep bees?"), draft, findings(ranking(now, earlier), related)).verdict
        )
    assert verdicts == [Verdict.CONFLICTING, Verdict.SUPPORTED]


def test_message_outside_the_view_does_not_supersede() -> None:
    evidence_findings = findings(ranking(WORKSHOP, MOVED), [SAME_THING])
    (statement,) = verify_draft_view(
        new_question("Where is my workshop?"), quoting(WORKSHOP), evidence_findings
    ).view.list_statements()
    assert statement.superseded_by == ""


def test_statement_citing_old_and_new_messages_is_not_superseded() -> None:
    both = DraftStatement(
        Section.PROFILE,
        "The workshop moved",
        (DraftCitation("old", "My workshop is in the barn"), DraftCitation("new", "The workshop moved")),
    )
    evidence_findings = findings(ranking(WORKSHOP, MOVED), [SAME_THING])
    (statement,) = verify_draft_view(
        new_question("Where is my workshop?"), DraftView((both,)), evidence_findings
    ).view.list_statements()
    assert len(statement.citations) == 2
    assert statement.superseded_by == ""


def test_view_is_empty_if_the_evidence_is_insufficient() -> None:
    evidence_findings = findings(ranking(WORKSHOP, OTHER), sufficiency=0.0)
    synthesis = verify_draft_view(new_question("What is my blood group?"), quoting(WORKSHOP, OTHER), evidence_findings)
    assert synthesis.verdict is Verdict.INSUFFICIENT
    assert cited(synthesis) == []


def test_view_without_drafts_has_no_citations_and_a_note() -> None:
    synthesis = verify_draft_view(new_question("Anything?"), DraftView(), findings(()))
    assert synthesis.verdict is Verdict.INSUFFICIENT
    assert [note.text for note in synthesis.notes] == ["no statement has a valid citation"]


def test_statements_state_the_attribution_of_their_quotes() -> None:
    advice = retrieved_message("advice", "You could keep it in the barn.", 9, Role.ASSISTANT)
    pasted = retrieved_message("pasted", "From the mill:\n\nThe barn is to let.", 8)
    evidence_findings = findings(ranking(WORKSHOP, advice, pasted))
    view = verify_draft_view(
        new_question("Where is my workshop?"), quoting(WORKSHOP, advice, pasted), evidence_findings
    ).view
    assert {statement.citations[0].message_id: statement.attribution for statement in view.list_statements()} == {
        "old": Attribution.USER,
        "advice": Attribution.OTHER,
        "pasted": Attribution.QUOTED,
    }


def test_both_sides_of_a_possible_contradiction_are_in_the_view() -> None:
    never = retrieved_message("never", "I have never kept bees.", 30)
    bees = retrieved_message("bees", "The bees in my garden swarmed.", 5)
    evidence_findings = findings(ranking(bees, OTHER, never), [MessageRelation("never", "bees", 3.0, 0.9)])
    synthesis = verify_draft_view(new_question("Do I keep bees?"), quoting(bees), evidence_findings)
    assert synthesis.verdict is Verdict.CONFLICTING
    assert cited(synthesis) == ["bees", "never"]
    (conflict,) = synthesis.conflicts
    assert conflict.is_possible
    assert (conflict.earlier, conflict.later) == tuple(reversed(synthesis.view.list_statements()))
    assert not any(statement.superseded_by for statement in synthesis.view.list_statements())


@given(MESSAGES, st.sampled_from(["Do I keep bees?", "我住在哪？", "", "How many hives?"]), st.floats(0, 1), st.data())
def test_any_conclusion_is_cited_and_ordered_with_superseding_statements_first(
    messages: list[RetrievedMessage], text: str, sufficiency: float, data: st.DataObject
) -> None:
    ordered = sorted(messages, key=lambda item: (item.ts, item.message_id))
    pairs = [
        MessageRelation(item.message_id, other.message_id, data.draw(st.floats(1, 4)), data.draw(st.floats(0, 1)))
        for index, item in enumerate(ordered)
        for other in ordered[index + 1 :]
        if item.sender == other.sender
    ]
    evidence_findings = findings(ranking(*messages), pairs, sufficiency)
    drafts = quoting(*data.draw(st.permutations(messages)))
    synthesis = verify_draft_view(new_question(text), drafts, evidence_findings)
    assert check(synthesis, {item.message_id: item for item in messages}, {item.message_id for item in messages}) == []
    assert synthesis == verify_draft_view(new_question(text), drafts, evidence_findings)
    for index, statement in enumerate(synthesis.view.list_statements()):
        before = {c.message_id for item in synthesis.view.list_statements()[:index] for c in item.citations}
        assert statement.superseded_by in {"", *before}


def test_message_without_content_words_is_quoted_completely() -> None:
    thumb, stop = retrieved_message("thumb", "👍", 2), retrieved_message("stop", "To be or not to be.", 1)
    view = verify_draft_view(new_question("And?"), quoting(thumb, stop), findings(ranking(thumb, stop))).view
    assert [statement.text for statement in view.list_statements()] == ["👍", "To be or not to be."]


def test_contradiction_unrelated_to_the_question_is_not_reported() -> None:
    never = retrieved_message("never", "I have never kept bees.", 30)
    bees = retrieved_message("bees", "The bees in my garden swarmed.", 5)
    evidence_findings = findings(
        ranking(bees, OTHER, never), [MessageRelation("never", "bees", 3.0, 0.9)], sufficiency=0.05
    )
    synthesis = verify_draft_view(new_question("Which car do I drive?"), quoting(bees), evidence_findings)
    assert (synthesis.verdict, synthesis.conflicts) == (Verdict.INSUFFICIENT, ())
    assert synthesis.view.list_statements() == ()
