"""One ranking out of several tools."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from nomemory.recall.intent.intent import read_intent
from nomemory.recall.model.evidence import Retrieved
from nomemory.recall.model.question import Question, Role
from nomemory.recall.search.fusion import Fusion
from nomemory.recall.tools.result import Hit, ToolResult
from nomemory.text.question_reading import QuestionReading
from nomemory.text.time_range import TimeRange

NOW = datetime(2026, 3, 14, tzinfo=UTC)


def fusion(text: str = "tell me about pottery", **fields: object) -> Fusion:
    question = Question(text, NOW, **fields)  # type: ignore[arg-type]  # the fields of the test's choice
    return Fusion(question, read_intent(QuestionReading(text, NOW)))


def message(message_id: str, content: str = "a few plain words", days: int = 10, **fields: object) -> Retrieved:
    role = fields.pop("role", Role.USER)
    return Retrieved(message_id, NOW - timedelta(days=days), role, content, **fields)  # type: ignore[arg-type]  # as above


def brought(*scored: tuple[Retrieved, float]) -> ToolResult:
    return ToolResult(tuple(Hit(one, score) for one, score in scored))


def order(ranking: Fusion) -> list[str]:
    return [evidence.message.message_id for evidence in ranking.ranked()]


def test_meaning_weighs_more_than_words_and_both_more_than_either() -> None:
    meant, worded, both, neither = (message(name) for name in ("meant", "worded", "both", "neither"))
    ranking = fusion()
    ranking.take("semantic_search", "q", brought((both, 0.9), (meant, 0.9), (neither, 0.5)), 1)
    ranking.take("lexical_search", "q", brought((both, 7.0), (worded, 7.0), (neither, 1.0)), 1)
    assert order(ranking) == ["both", "meant", "worded", "neither"]


def test_what_was_ranked_as_a_whole_keeps_its_scores_and_the_rest_counts_beside_it() -> None:
    first, second, told = (message(name) for name in ("first", "second", "told"))
    ranking = fusion()
    ranking.take("hybrid_search", "q", replace(brought((first, 1.8), (second, 0.8)), coverage=1.0), 1)
    ranking.take("semantic_search", "what one might say", brought((told, 0.9), (second, 0.8)), 2)
    scores = {one.message.message_id: one.score for one in ranking.ranked()}
    assert scores == {"first": 1.8, "second": 0.8, "told": 0.0}


def test_the_less_of_the_question_stands_in_what_was_found_the_more_the_rest_counts() -> None:
    ranked, told, other = (message(name) for name in ("ranked", "told", "other"))
    for coverage, best in ((1.0, "ranked"), (0.0, "told")):
        ranking = fusion()
        ranking.take("hybrid_search", "q", replace(brought((ranked, 0.6)), coverage=coverage), 1)
        ranking.take("semantic_search", "what one might say", brought((told, 0.9), (other, 0.8)), 2)
        assert order(ranking)[0] == best


def test_what_a_skill_asks_for_counts_even_where_every_word_was_found() -> None:
    best, alias, other = (message(name) for name in ("best", "alias", "other"))
    ranking = fusion()
    ranking.take("hybrid_search", "q", replace(brought((best, 1.0), (alias, 0.9)), coverage=1.0), 1)
    ranking.take("lexical_search", "q and more", brought((alias, 3.0), (other, 1.0)), 1, 0.7)
    assert order(ranking)[0] == "alias"


def test_the_ranking_of_the_last_scope_stands() -> None:
    early, late, lost = (message(name) for name in ("early", "late", "lost"))
    ranking = fusion()
    ranking.take("hybrid_search", "q", brought((early, 1.0), (lost, 0.9)), 1)
    ranking.take("hybrid_search", "q", brought((late, 1.0), (early, 0.4)), 2)
    assert [(one.message.message_id, one.score) for one in ranking.ranked()] == [
        ("late", 1.0),
        ("lost", 0.4),
        ("early", 0.4),
    ]


def test_nods_rank_lower_in_a_hybrid_ranking_too() -> None:
    ranking = fusion()
    ranking.take("hybrid_search", "q", brought((message("nods", "😀", days=1), 1.0), (message("says"), 0.9)), 1)
    assert order(ranking) == ["says", "nods"]


def test_ties_are_ordered_by_time_and_then_by_id() -> None:
    ranking = fusion()
    ranking.take("semantic_search", "q", brought((message("b"), 1), (message("a"), 1), (message("c", days=1), 1)), 1)
    assert order(ranking) == ["c", "b", "a"]


def test_a_wider_call_for_the_same_thing_is_on_the_same_scale() -> None:
    weak, strong = message("weak"), message("strong")
    ranking = fusion()
    ranking.take("semantic_search", "q", brought((weak, 0.2)), 1)
    ranking.take("semantic_search", "q", brought((strong, 0.9), (weak, 0.2)), 2)
    assert order(ranking) == ["strong", "weak"]


def test_later_rounds_count_less() -> None:
    ranking = fusion()
    ranking.take("lexical_search", "first", brought((message("first"), 5)), 1)
    ranking.take("lexical_search", "second", brought((message("second", days=1), 5)), 2)
    assert order(ranking) == ["first", "second"]


def test_the_role_that_can_answer_is_preferred_where_messages_carry_no_names() -> None:
    ranking = fusion()
    own, repeated = message("own"), message("repeated", role=Role.ASSISTANT, days=1)
    ranking.take("semantic_search", "q", brought((own, 1), (repeated, 1)), 1)
    assert order(ranking) == ["own", "repeated"]


def test_the_person_asked_about_is_preferred_where_they_do() -> None:
    ranking = fusion("What did Caroline make?")
    ranking.take(
        "semantic_search",
        "q",
        brought((message("m", name="Melanie", days=1), 1), (message("c", name="Caroline"), 1)),
        1,
    )
    assert order(ranking) == ["c", "m"]


def test_the_window_that_is_meant_is_preferred() -> None:
    ranking = fusion(time_range=TimeRange(NOW - timedelta(days=20), NOW - timedelta(days=5)))
    ranking.take("semantic_search", "q", brought((message("out", days=1), 1), (message("in"), 1)), 1)
    assert order(ranking) == ["in", "out"]


def test_the_latest_is_preferred_where_it_is_asked_for() -> None:
    ranking = fusion("how is the latest draft going?")
    ranking.take("semantic_search", "q", brought((message("old", days=200), 1.0), (message("new", days=2), 0.99)), 1)
    ranking.take("semantic_search", "q", brought((message("off", days=2), 0.5)), 1)
    assert order(ranking) == ["new", "old", "off"]


def test_questions_and_nods_rank_lower() -> None:
    ranking = fusion()
    asks, nods = message("asks", "what shall we eat tonight?", days=1), message("nods", "ok 😀", days=1)
    ranking.take("semantic_search", "q", brought((asks, 1), (nods, 1), (message("says"), 1)), 1)
    assert order(ranking) == ["says", "asks", "nods"]


def test_neighbours_stand_below_their_anchor_the_nearer_the_better() -> None:
    far, near, anchor = message("far", days=13), message("near", days=12), message("anchor", days=11)
    ranking = fusion()
    ranking.take("semantic_search", "q", brought((anchor, 1)), 1)
    ranking.take("neighbors", "anchor", brought((far, 0), (near, 0), (anchor, 0)), 1)
    assert order(ranking) == ["anchor", "near", "far"]


def test_a_listing_ranks_by_its_order() -> None:
    ranking = fusion()
    ranking.take("messages_list", "", brought((message("newer", days=1), 0), (message("older", days=2), 0)), 1)
    assert order(ranking) == ["newer", "older"]


def test_what_is_asked_with_further_words_adds_to_the_exact_words_and_does_not_displace_them() -> None:
    exact, alias, both, neither = (message(name) for name in ("exact", "alias", "both", "neither"))
    ranking = fusion()
    ranking.take("lexical_search", "q", brought((exact, 5.0), (both, 5.0), (neither, 0.0)), 1)
    ranking.take(
        "lexical_search", "q and more", brought((both, 9.0), (alias, 7.0), (exact, 5.0), (neither, 0.0)), 1, 0.7
    )
    assert order(ranking) == ["both", "exact", "alias", "neither"]
