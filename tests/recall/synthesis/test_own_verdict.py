"""Tests for the verification of the verdict and the conflicts of a chat model."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.recall.grounding.conclusion import verify_draft_view
from nomemory.recall.model.evidence import Evidence, RetrievedMessage, RetrievedMessages, SearchFindings
from nomemory.recall.model.memory_view import (
    DraftCitation,
    DraftConflict,
    DraftStatement,
    DraftView,
    Section,
    Verdict,
    VerifiedView,
)
from nomemory.recall.model.question import Question, Role
from nomemory.recall.model.sufficiency import Sufficiency

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
QUESTION = Question("Do I eat spicy food?", NOW)
CONTENTS = {"m1": "I never eat spicy food.", "m2": "I had a spicy hotpot, loved it.", "m3": "The weather was fine."}
LIKELY, UNLIKELY = Sufficiency(0.9, speaker_matched=False), Sufficiency(0.01, speaker_matched=False)


NEVER = DraftStatement(Section.PREFERENCES, "eats nothing spicy", (DraftCitation("m1", "never eat spicy food"),))
LOVED = DraftStatement(Section.PREFERENCES, "loves spicy hotpot", (DraftCitation("m2", "a spicy hotpot, loved it"),))
INVENTED = DraftStatement(Section.PROFILE, "is a pirate", (DraftCitation("m1", "I am a pirate"),))
BOTH = DraftConflict(DraftCitation("m2", "spicy hotpot"), DraftCitation("m1", "never eat"))


def concluded(draft: DraftView, likely: Sufficiency = LIKELY) -> VerifiedView:
    retrieval = RetrievedMessages()
    retrieval.add_messages(
        RetrievedMessage(message_id, NOW - timedelta(days=9 - index), Role.USER, content)
        for index, (message_id, content) in enumerate(CONTENTS.items())
    )
    evidence = tuple(Evidence(message, 1.0) for message in retrieval)
    return verify_draft_view(QUESTION, draft, SearchFindings(evidence, retrieval, sufficiency=likely))


@pytest.mark.parametrize("verdict", [Verdict.SUPPORTED, Verdict.INSUFFICIENT])
@pytest.mark.parametrize("likely", [LIKELY, UNLIKELY])
def test_consistent_verdict_is_kept_and_determines_the_view(verdict: Verdict, likely: Sufficiency) -> None:
    synthesis = concluded(DraftView((NEVER,), verdict), likely)
    assert synthesis.verdict is verdict
    stated = [NEVER.text] if verdict is Verdict.SUPPORTED else []
    assert [statement.text for statement in synthesis.view.list_statements()] == stated


@pytest.mark.parametrize(("likely", "verdict"), [(LIKELY, Verdict.SUPPORTED), (UNLIKELY, Verdict.INSUFFICIENT)])
def test_rules_decide_without_a_model_verdict(likely: Sufficiency, verdict: Verdict) -> None:
    assert concluded(DraftView((NEVER,)), likely).verdict is verdict


def test_supported_verdict_without_a_valid_statement_is_corrected() -> None:
    synthesis = concluded(DraftView((INVENTED,), Verdict.SUPPORTED))
    assert synthesis.verdict is Verdict.INSUFFICIENT
    texts = [note.text for note in synthesis.notes]
    assert "the verdict supported of the model was inconsistent; the rules decided the verdict" in texts


@pytest.mark.parametrize(("likely", "verdict"), [(LIKELY, Verdict.SUPPORTED), (UNLIKELY, Verdict.INSUFFICIENT)])
def test_conflicting_verdict_without_two_sides_is_corrected(likely: Sufficiency, verdict: Verdict) -> None:
    synthesis = concluded(DraftView((NEVER, LOVED), Verdict.CONFLICTING), likely)
    assert synthesis.verdict is verdict
    assert not synthesis.conflicts


@pytest.mark.parametrize("model_verdict", [None, Verdict.SUPPORTED, Verdict.CONFLICTING])
@pytest.mark.parametrize(
    "pair",
    [
        BOTH,
        DraftConflict(DraftCitation("m1"), DraftCitation("m2")),
    ],
)
def test_two_cited_statements_of_the_view_contradict_each_other(
    model_verdict: Verdict | None, pair: DraftConflict
) -> None:
    synthesis = concluded(DraftView((LOVED, NEVER), model_verdict, (pair, pair)))
    (conflict,) = synthesis.conflicts
    assert synthesis.verdict is Verdict.CONFLICTING
    assert (conflict.earlier.text, conflict.later.text) == (NEVER.text, LOVED.text)
    assert {conflict.earlier, conflict.later} == set(synthesis.view.list_statements())


@pytest.mark.parametrize(
    "pair",
    [
        DraftConflict(DraftCitation("m1", "never eat"), DraftCitation("m2", "I hate hotpot")),
        DraftConflict(DraftCitation("m1"), DraftCitation("m3")),
        DraftConflict(DraftCitation("m1"), DraftCitation("m9")),
        DraftConflict(DraftCitation("m1"), DraftCitation("m1", "spicy food")),
    ],
    ids=["words never said", "not in the view", "never found", "one message"],
)
def test_conflict_with_an_invalid_statement_is_removed(pair: DraftConflict) -> None:
    synthesis = concluded(DraftView((NEVER, LOVED, INVENTED), Verdict.CONFLICTING, (pair,)))
    assert not synthesis.conflicts
    assert synthesis.verdict is Verdict.SUPPORTED


SIDES = st.builds(DraftCitation, st.sampled_from([*CONTENTS, "m9"]), st.sampled_from(["", "spicy", "pirate"]))
DRAFTS = st.builds(
    DraftView,
    st.lists(st.sampled_from([NEVER, LOVED, INVENTED]), max_size=4).map(tuple),
    st.none() | st.sampled_from([Verdict.SUPPORTED, Verdict.CONFLICTING, Verdict.INSUFFICIENT]),
    st.lists(st.builds(DraftConflict, SIDES, SIDES), max_size=4).map(tuple),
)


@given(DRAFTS, st.sampled_from([LIKELY, UNLIKELY]))
def test_any_verdict_is_consistent_with_statements_and_conflicts(draft: DraftView, likely: Sufficiency) -> None:
    synthesis = concluded(draft, likely)
    stated = synthesis.view.list_statements()
    assert all(
        citation.quote in CONTENTS[citation.message_id] for statement in stated for citation in statement.citations
    )
    assert all({pair.earlier, pair.later} <= set(stated) for pair in synthesis.conflicts)
    assert all(pair.earlier.text != pair.later.text for pair in synthesis.conflicts)
    assert bool(stated) is (synthesis.verdict is not Verdict.INSUFFICIENT)
    assert synthesis.conflicts or synthesis.verdict is not Verdict.CONFLICTING
    if stated:
        assert {item.text for item in stated} == {item.text for item in draft.statements} - {INVENTED.text}
