"""Tests for statements without a model, which quote the most probable messages."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recall.retrieved_messages import findings, new_question, ranking, retrieved_message

from nomemory.recall.grounding.supersession import MIN_SHARED_TERMS, MIN_SIMILARITY
from nomemory.recall.model.evidence import Evidence, MessageRelation, RetrievedMessage
from nomemory.recall.model.memory_view import Section
from nomemory.recall.model.question import Role
from nomemory.recall.model.sufficiency import SufficiencyThresholds
from nomemory.recall.skills.loader import Skill
from nomemory.recall.synthesis.extractive import (
    MAX_QUOTED,
    MIN_QUOTED,
    ExtractiveSynthesizer,
    estimate_probability,
    select_probable_evidence,
)

LINES = [retrieved_message(f"m{number}", f"The lamp in room {number} is broken.", number) for number in range(1, 9)]
QUOTED = SufficiencyThresholds().quoted
FLOATS = st.floats(-5, 5)
EVIDENCE = st.lists(st.tuples(FLOATS, FLOATS), max_size=8).map(
    lambda some: [
        Evidence(message, score, deviations)
        for message, (score, deviations) in zip(LINES, sorted(some, reverse=True), strict=False)
    ]
)


@given(EVIDENCE)
def test_first_message_is_always_quoted_and_at_most_four(evidence: list[Evidence]) -> None:
    kept = select_probable_evidence(evidence, QUOTED)
    assert min(MIN_QUOTED, len(evidence)) <= len(kept) <= MAX_QUOTED
    assert kept[:MIN_QUOTED] == evidence[:MIN_QUOTED]
    assert [item for item in evidence if item in kept] == kept


def test_low_ranked_or_dissimilar_messages_are_not_quoted() -> None:
    near = ranking(*LINES, deviations=4.0)
    assert len(select_probable_evidence(near, QUOTED)) == MAX_QUOTED
    assert len(select_probable_evidence(ranking(*LINES, deviations=-4.0), QUOTED)) == MIN_QUOTED


def test_clearly_best_message_is_the_only_quote() -> None:
    first, *others = ranking(*LINES, deviations=4.0)
    far = [replace(other, score=1.0, semantic_z_score=0.5) for other in others]
    assert select_probable_evidence([first, *far], QUOTED) == [first]
    assert len(select_probable_evidence([first, *others], QUOTED)) > 1


def test_without_semantic_search_similarity_excludes_no_quotes() -> None:
    assert len(select_probable_evidence(ranking(*LINES, deviations=0.0), QUOTED)) > MIN_QUOTED


@given(st.integers(0, 9), st.floats(-5, 0), FLOATS)
def test_probability_increases_with_rank_score_and_similarity(rank: int, gap: float, nearness: float) -> None:
    here = estimate_probability(rank, gap, nearness)
    assert 0 < here < 1
    assert here > estimate_probability(rank + 1, gap, nearness)
    assert here < estimate_probability(rank, gap + 0.1, nearness)
    assert here < estimate_probability(rank, gap, nearness + 0.1)


async def test_messages_are_quoted_completely_in_order_of_relevance() -> None:
    evidence = ranking(LINES[4], LINES[0], LINES[2], deviations=4.0)
    synthesiser = ExtractiveSynthesizer(QUOTED)
    drafts = (
        await synthesiser.draft_view(new_question("What do I like?"), Skill("s", "d", ""), findings(evidence))
    ).statements
    assert [draft.text for draft in drafts] == [item.content for item in (LINES[4], LINES[0], LINES[2])]
    assert {draft.section for draft in drafts} == {Section.PROFILE}
    assert [[citation.message_id for citation in draft.citations] for draft in drafts] == [["m5"], ["m1"], ["m3"]]


async def quoted(text: str, *messages: RetrievedMessage) -> list[str]:
    evidence = ranking(*messages, deviations=4.0)
    draft = await ExtractiveSynthesizer(QUOTED).draft_view(new_question(text), Skill("s", "d", ""), findings(evidence))
    return [citation.message_id for statement in draft.statements for citation in statement.citations]


@pytest.mark.parametrize(
    "content", ["😀", "👍👍", "...", "perfect, thx", "好的", "ok", "What do I like to eat?", "我爱吃什么？"]
)
async def test_message_without_content_or_with_only_questions_is_not_quoted(content: str) -> None:
    empty, says = (
        retrieved_message("empty", content, 1),
        retrieved_message("says", "I like clear soup with mushrooms.", 2),
    )
    assert await quoted("What do I like to eat?", empty, says) == ["says"]
    assert await quoted("What do I like to eat?", empty) == []


@pytest.mark.parametrize("content", ["I'm vegan.", "我吃素", "7.3 kg", "Vegan food!"])
async def test_short_assertion_is_quoted(content: str) -> None:
    assert await quoted("Which food do I eat?", retrieved_message("says", content, 1)) == ["says"]


async def test_correction_of_any_length_is_quoted() -> None:
    wrong = replace(retrieved_message("wrong", "I like clear soup with mushrooms.", 3), retracted_by="right")
    right = replace(retrieved_message("right", "Wrong, sorry.", 1), retracts=("wrong",))
    assert await quoted("Which soup do I like?", right, wrong) == ["right", "wrong"]


async def test_newer_value_is_quoted_with_the_best_message() -> None:
    old, new, far = LINES[:3]
    evidence = [Evidence(old, 4.0, 4.0), Evidence(far, -9.0, -9.0), Evidence(new, -9.0, -9.0)]
    relation = MessageRelation(old.message_id, new.message_id, MIN_SIMILARITY, MIN_SHARED_TERMS)
    ranked = replace(findings(evidence), relations=(relation,))
    view = await ExtractiveSynthesizer(QUOTED).draft_view(
        new_question("Which lamp is broken?"), Skill("s", "d", ""), ranked
    )
    assert [statement.citations[0].message_id for statement in view.statements] == [old.message_id, new.message_id]


async def test_assistant_is_quoted_only_if_no_other_message_answers() -> None:
    offer = retrieved_message("offer", "Clear soup with mushrooms and tofu.", 1, Role.ASSISTANT)
    says = retrieved_message("says", "I like clear soup with mushrooms.", 2)
    assert await quoted("Which soup do I like?", offer, says) == ["says"]
    assert await quoted("Which soup do I like?", offer) == ["offer"]


@pytest.mark.parametrize("text", ["Which lamp is broken?", "哪盏灯坏了？", "", "."])
async def test_statements_are_drafted_only_from_hits(text: str) -> None:
    synthesiser, skill = ExtractiveSynthesizer(QUOTED), Skill("s", "d", "")
    assert (await synthesiser.draft_view(new_question(text), skill, findings(()))).statements == ()
    assert len((await synthesiser.draft_view(new_question(text), skill, findings(ranking(LINES[0])))).statements) == 1
