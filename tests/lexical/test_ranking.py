"""Tests for ranking features beyond the terms, which never add matches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lexical.engine import Engine
from lexical.shelf import Shelf, message, query, shelved

from nomemory.server.message import Role
from nomemory.server.search.grammar.tree import Leaf
from nomemory.server.search.lexical.message_class import is_question
from nomemory.text.names import extract_candidate_name_terms, extract_name_terms

LONG = " ".join(f"word{number}" for number in range(30))


def scores(shelf: Shelf, text: str, user: str = "u") -> dict[str, float]:
    """Return the score of each matching content."""
    return {shelf.messages[hit.sequence].content: hit.score for hit in shelf.hits(user, query(text))}


def aside(text: str) -> set[str]:
    """Return the text outside the question."""
    return {" ".join(leaf.tokens) for leaf in query(text).downweighted}


@pytest.fixture
def talk(engine: Engine, tmp_path: Path) -> Iterator[Shelf]:
    shelf = Shelf(engine, tmp_path)
    shelf.put(
        message("u", "the hike was long", 1, Role.USER, name="Caroline"),
        message("u", "a hike with Caroline", 2, Role.ASSISTANT, name="Melanie"),
        message("u", "that hike, remember", 3, Role.ASSISTANT, name="Melanie"),
        message("u", "dinner is ready", 4, Role.USER, name="Caroline"),
        message("u", "我周末去爬山", 5, Role.USER, name="王小明"),
        message("u", "爬山很累", 6, Role.ASSISTANT, name="李雷"),
    )
    yield shelf
    shelf.close()


def test_sender_affects_ranking_but_never_matches(talk: Shelf) -> None:
    assert talk.find("u", "Caroline") == ["a hike with Caroline"]
    assert talk.find("u", "Caroline zebra yak") == ["a hike with Caroline"]
    assert talk.find("u", "hike") == ["that hike, remember", "a hike with Caroline", "the hike was long"]
    assert talk.find("u", "Caroline's hike")[-1] == "that hike, remember"
    assert talk.find("u", "hike caroline zebra")[-1] == "that hike, remember"
    assert talk.find("u", "melanie hike zebra") == ["that hike, remember", "a hike with Caroline", "the hike was long"]
    assert talk.find("u", "小明爬山") == ["我周末去爬山", "爬山很累"]


@pytest.mark.parametrize("name", ["Caroline", "caroline", "Caro", "CAROLYN", "“Caroline”"])
def test_capitalized_prefix_of_three_letters_matches_a_name(talk: Shelf, name: str) -> None:
    contents = talk.find("u", f"hike, {name} zebra")
    assert contents.index("the hike was long") < contents.index("that hike, remember")


def test_word_with_the_prefix_of_a_name_does_not_match_it(talk: Shelf) -> None:
    assert talk.find("u", "hike carpet zebra")[-1] == "the hike was long"


@pytest.mark.parametrize(
    ("name", "terms"),
    [
        ("Caroline", ["caroline", "car…"]),
        ("J. R. Ångström", ["j", "r", "angstrom", "ang…"]),
        ("王小明", ["王小", "小明"]),
        ("", []),
        ("😀", []),
    ],
)
def test_sender_name_is_split_into_terms(name: str, terms: list[str]) -> None:
    assert extract_name_terms(name) == terms


def test_candidate_name_terms_are_extracted_from_a_query() -> None:
    assert extract_candidate_name_terms("What did Anna say to 小明, bob?") == ["anna", "say", "bob", "ann…", "小明"]


def test_senders_of_other_users_do_not_affect_the_ranking(engine: Engine, tmp_path: Path) -> None:
    with shelved(engine, tmp_path, ["I like the hike", "the hike was long"]) as shelf:
        parsed_query = query("What did Caroline and I like, the hike?")
        before = shelf.weigh("u", parsed_query), shelf.hits("u", parsed_query)
        shelf.put(*(message("v", "hike", 9, name="Caroline") for _ in range(5)))
        assert (shelf.weigh("u", parsed_query), shelf.hits("u", parsed_query)) == before


def test_first_person_question_ranks_user_messages_first(engine: Engine, tmp_path: Path) -> None:
    with shelved(engine, tmp_path) as shelf:
        shelf.put(
            message("u", "火锅我喜欢", 1, Role.USER),
            message("u", "火锅很好", 2, Role.ASSISTANT),
            message("u", "面条", 3, Role.ASSISTANT),
        )
        assert shelf.find("u", "我觉得火锅怎么样？")[0] == "火锅我喜欢"
        assert shelf.find("u", "火锅怎么样？") == ["火锅很好", "火锅我喜欢"]
        assert shelf.find("u", "火锅 很难") == ["火锅很好", "火锅我喜欢"]


def test_the_first_person_boost_is_zero_without_user_messages(engine: Engine, tmp_path: Path) -> None:
    with shelved(engine, tmp_path) as shelf:
        shelf.put(*(message("u", text, 1, Role.ASSISTANT) for text in ("火锅", "火锅 面条")))
        parsed_query = query("我的火锅和面条呢？")
        assert shelf.weigh("u", parsed_query)[len(parsed_query.leaves) :] == (0.0, 0.0)


def test_named_sender_ranks_above_the_user(talk: Shelf) -> None:
    for text, weighs in (
        ("What hike did I take with Melanie?", [True, False]),
        ("What hike did I take with Zoe?", [False, True]),
        ("What hike did Zoe take?", [False]),
    ):
        parsed_query = query(text)
        assert [weight > 0 for weight in talk.weigh("u", parsed_query)[len(parsed_query.leaves) :]] == weighs


def test_terms_of_the_question_outweigh_terms_of_the_surrounding_text(engine: Engine, tmp_path: Path) -> None:
    texts = ["小区环境优美", "今天天气真好，公园里花开得鲜艳"]
    with shelved(engine, tmp_path, [*texts, "面条"]) as shelf:
        chatter = "今天天气真好，公园里花开得特别鲜艳。"
        assert shelf.find("u", f"{chatter}我的小区环境怎么样？") == texts
        assert shelf.find("u", chatter) == texts[1:]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("今天很累。小区环境好不好？", {"今天", "天很", "很累"}),
        ("小区什么时候建的？", {"区什", "什么", "么时", "时候", "候建", "建的"}),
        ("It rains! Where is Paris?", {"rain"}),
        ('He talked of "hot pot"! It rains! Where is Paris?', {"talk", "rain"}),
        # only words, only one question, or no question: all text is the query
        ("rain Paris", set()),
        ("Where did the rain go?", set()),
        ("It rains! Paris is far.", set()),
        ("什么时候", set()),
        # queries with operators are not analyzed
        ("It rains! Where is Paris? -London", set()),
        ("rains OR (where is Paris?)", set()),
        ("Where AND Paris? It rains!", set()),
    ],
)
def test_text_outside_the_question_is_recognized(text: str, expected: set[str]) -> None:
    assert aside(text) == expected


@given(st.text(st.sampled_from("火锅吃辣吗？。 什么怎样我的Who is a.?\n"), max_size=40))
def test_question_analysis_does_not_change_the_matching_terms(text: str) -> None:
    parsed_query, literally = query(text), query(text + " -zebra")
    expected = {leaf for leaf in literally.leaves if leaf != Leaf(leaf.stream, ("zebra",))}
    assert set(parsed_query.leaves) == expected
    assert parsed_query.downweighted < set(parsed_query.leaves) or not parsed_query.downweighted


def test_short_statement_ranks_above_long_statement_and_question(engine: Engine, tmp_path: Path) -> None:
    texts = ["hot pot", f"hot pot {LONG}", "hot pot?", f"hot pot {LONG}?"]
    with shelved(engine, tmp_path, [texts[0], texts[2], texts[1], texts[3], "noodles"]) as shelf:
        scores_by_content = scores(shelf, "hot pot zebra")
        assert list(scores_by_content) == texts
        best = scores_by_content["hot pot"]
        assert list(scores_by_content.values()) == [best, best * 14 / 16, best * 14 / 16, best * 12 / 16]


@pytest.mark.parametrize("text", ["pot", '"hot pot"', "hot AND pot", "hot OR pot", "hot pot -zebra"])
def test_single_term_and_operator_queries_are_ordered_by_time(engine: Engine, tmp_path: Path, text: str) -> None:
    texts = ["hot pot", "hot pot?", f"hot pot {LONG}"]
    with shelved(engine, tmp_path, texts) as shelf:
        assert list(scores(shelf, text)) == texts[::-1]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("火锅好吃吗？", True),
        ("好吃吗", True),
        ("Really?!", False),
        ('"Really?" ', True),
        ("Why? Because.", False),
        ("Look at this?\n[Image] a dog", True),
        ("", False),
    ],
)
def test_question_is_recognized_by_its_ending(content: str, *, expected: bool) -> None:
    assert is_question(content) is expected


def test_scores_of_a_listing_are_stable_during_writes(talk: Shelf) -> None:
    parsed_query = query("Which hike did Caroline like, the long one?")
    ranking = talk.freeze("u", parsed_query)
    before = talk.page("u", parsed_query, ranking)
    talk.put(*(message("u", "what a long hike?", 0, name="Caroline") for _ in range(3)))
    assert talk.freeze("u", parsed_query) != ranking
    assert talk.page("u", parsed_query, ranking) == before
