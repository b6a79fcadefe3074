"""Tests for the ranking of evidence from HybridSearch and further searches."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recall.retrieved_messages import NOW, new_question, retrieved_message

from nomemory.recall.model.evidence import RetrievedMessage
from nomemory.recall.model.question import Question, Role
from nomemory.recall.search.ranking import MAX_REORDERED, EvidenceRanking
from nomemory.recall.skills.steering.defaults import SkillDefaults
from nomemory.recall.tools.result import Hit, ToolResult
from nomemory.text.time_expressions import build_last_days_range

PLAIN = new_question("Tell me about the lighthouse")
FOLLOW_UPS = ["lexical_search", "semantic_search", "messages_list"]


def message(
    message_id: str, days: float = 10, role: Role = Role.USER, content: str = "It is white."
) -> RetrievedMessage:
    return retrieved_message(message_id, content, days, role)


def brought(*scored: tuple[RetrievedMessage, float]) -> ToolResult:
    return ToolResult(tuple(Hit(item, score) for item, score in scored))


def order(ranking: EvidenceRanking) -> list[str]:
    return [evidence.message.message_id for evidence in ranking.rank_evidence()]


def ranked(question: Question = PLAIN) -> EvidenceRanking:
    return EvidenceRanking(question)


@given(
    st.lists(st.integers(1, 100), min_size=1, max_size=8, unique=True),
    st.lists(st.tuples(st.sampled_from(FOLLOW_UPS), st.dictionaries(st.integers(0, 12), st.floats(0, 50)))),
)
def test_follow_up_searches_do_not_displace_the_leading_hits(
    scores: list[int], follow_ups: list[tuple[str, dict[int, float]]]
) -> None:
    leaders = sorted(scores, reverse=True)
    ranking = ranked()
    ranking.add_result("hybrid_search", brought(*((message(f"m{n}"), score / 50) for n, score in enumerate(leaders))))
    for tool, hits in follow_ups:
        ranking.add_result(tool, brought(*((message(f"m{n}"), score) for n, score in hits.items())))
    assert order(ranking)[: len(leaders)] == [f"m{n}" for n in range(len(leaders))]


def test_result_of_an_unknown_tool_does_not_change_the_ranking() -> None:
    ranking = ranked()
    ranking.add_result("find_messages", brought())
    ranking.add_result("lexical_search", brought((message("m1"), 0.5)))
    assert order(ranking) == ["m1"]


def test_assertions_rank_above_questions_and_assistant_messages() -> None:
    ranking = ranked()
    asks = message("asks", content="how tall is the lighthouse")
    echo = message("echo", role=Role.ASSISTANT)
    ranking.add_result(
        "hybrid_search", brought((asks, 0.9), (echo, 0.8), (message("says"), 0.3), (message("also"), 0.2))
    )
    assert order(ranking) == ["says", "also", "asks", "echo"]


def test_message_with_an_assertion_before_a_question_keeps_its_rank() -> None:
    ranking = ranked()
    tells = message("tells", content="We are off to the lighthouse on Friday, can you plan the walk with me?")
    ranking.add_result("hybrid_search", brought((tells, 0.9), (message("says"), 0.3)))
    assert order(ranking) == ["tells", "says"]


@pytest.mark.parametrize("text", ["How tall is the lighthouse?", "I forgot, how tall is the lighthouse again?"])
def test_earlier_message_with_the_same_question_ranks_lower(text: str) -> None:
    ranking = ranked(new_question("How tall is the lighthouse?"))
    ranking.add_result("hybrid_search", brought((message("asked", content=text), 1.0), (message("says"), 0.1)))
    assert order(ranking) == ["says", "asked"]


def test_ranking_order_is_kept_if_senders_have_names() -> None:
    ranking = ranked()
    asks = retrieved_message("asks", "how tall is the lighthouse", name="Ravi")
    says = retrieved_message("says", "It is white.", role=Role.ASSISTANT, name="Ines")
    ranking.add_result("hybrid_search", ToolResult((Hit(asks, 0.9), Hit(says, 0.89, 4.0))))
    assert [(item.message.message_id, round(item.score, 2)) for item in ranking.rank_evidence()] == [
        ("asks", 3.0),
        ("says", 2.97),
    ]


@pytest.mark.parametrize(
    ("text", "first"),
    [("How is the lighthouse now?", "new"), ("灯塔现在怎么样了？", "new"), ("Is the lighthouse red?", "old")],
)
def test_questions_about_the_present_favor_later_messages(text: str, first: str) -> None:
    ranking = ranked(new_question(text))
    ranking.add_result(
        "hybrid_search", brought((message("old", 90), 0.90), (message("new", 3), 0.88), (message("off"), 0.3))
    )
    assert order(ranking)[0] == first
    assert order(ranking)[-1] == "off"


def test_ranking_is_unchanged_without_assertions() -> None:
    ranking = ranked()
    ranking.add_result(
        "hybrid_search",
        brought((message("asks", content="how tall is it?"), 0.9), (message("b", role=Role.ASSISTANT), 0.8)),
    )
    assert order(ranking) == ["asks", "b"]


def test_assertions_below_the_reordered_ranks_keep_their_rank() -> None:
    ranking = ranked()
    asking = [message(f"m{n:02}", content="how tall is it?") for n in range(MAX_REORDERED)]
    hits = [*((item, 0.9 - n / 100) for n, item in enumerate(asking)), (message("says"), 0.1)]
    ranking.add_result("hybrid_search", brought(*hits))
    assert order(ranking)[-1] == "says"


def test_follow_up_hits_of_a_skill_add_to_the_ranking() -> None:
    best, alias, other = message("best"), message("alias"), message("other")
    ranking = ranked()
    ranking.add_result("hybrid_search", brought((best, 1.0), (alias, 0.9)))
    ranking.add_result("lexical_search", brought((alias, 3.0), (other, 1.0)), 0.7)
    assert order(ranking)[0] == "alias"
    assert set(order(ranking)) == {"best", "alias", "other"}


def test_wider_search_adds_messages_below_the_first_scope() -> None:
    ranking = ranked()
    ranking.add_result("hybrid_search", brought((message("first"), 0.4), (message("second"), 0.3)))
    ranking.add_result("hybrid_search", brought((message("wide"), 1.0), (message("second"), 0.9)))
    assert order(ranking)[0] == "first"
    scores = {item.message.message_id: item.score for item in ranking.rank_evidence()}
    assert scores["wide"] <= scores["second"]


def test_best_score_is_three_plus_a_similarity_bonus() -> None:
    ranking = ranked()
    near = ToolResult((Hit(message("a"), 0.5), Hit(message("b"), 0.49, 2.0), Hit(message("c"), 0.25, 2.0)))
    ranking.add_result("hybrid_search", near)
    assert [(item.message.message_id, round(item.score, 6)) for item in ranking.rank_evidence()] == [
        ("b", 3.14),
        ("a", 3.0),
        ("c", 1.7),
    ]
    assert [item.semantic_z_score for item in ranking.rank_evidence()] == [2.0, 0.0, 2.0]


@pytest.mark.parametrize("tool", ["lexical_search", "semantic_search"])
def test_call_scores_decide_without_a_hybrid_ranking(tool: str) -> None:
    ranking = ranked()
    ranking.add_result(tool, brought((message("good"), 7.0), (message("poor"), 1.0)))
    assert order(ranking) == ["good", "poor"]


def test_listed_messages_rank_in_order_and_neighbors_are_not_ranked() -> None:
    ranking = ranked()
    ranking.add_result("messages_list", brought((message("newer", 1), 0), (message("older", 2), 0)))
    ranking.add_result("neighbors", brought((message("beside", 1), 0)))
    assert order(ranking) == ["newer", "older"]


def test_ties_are_ordered_by_time_and_then_by_id() -> None:
    ranking = ranked()
    ranking.add_result("semantic_search", brought((message("b"), 1), (message("a"), 1), (message("c", 1), 1)))
    assert order(ranking) == ["c", "b", "a"]


def test_requested_role_and_time_range_are_preferred() -> None:
    in_window = replace(PLAIN, time_range=build_last_days_range(5, NOW))
    ranking = ranked(in_window)
    ranking.add_result("hybrid_search", brought((message("before", 10), 0.5), (message("within", 2), 0.45)))
    assert order(ranking)[0] == "within"
    of_role = EvidenceRanking(new_question("What was it?", Role.ANY), SkillDefaults(role=Role.USER))
    of_role.add_result("semantic_search", brought((message("a"), 1.0), (message("b", 1, Role.ASSISTANT), 1.0)))
    assert set(order(of_role)) == {"a", "b"}


def test_order_does_not_depend_on_intermediate_reads() -> None:
    left, other = ranked(), ranked()
    first = brought((message("a"), 0.5), (message("b"), 0.4))
    second = brought((message("b"), 3.0), (message("c"), 2.0))
    for ranking in (left, other):
        ranking.add_result("hybrid_search", first)
        if ranking is left:
            ranking.rank_evidence()
        ranking.add_result("lexical_search", second, 0.5)
    assert left.rank_evidence() == other.rank_evidence()
