"""Tests for searches with a real index: matches, users and order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lexical.engine import Engine
from lexical.shelf import LATEST, Shelf, message, query, shelved

from nomemory.server.message import Role
from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.search.lexical.protocol import FrozenRanking

TEXTS = [
    "我不吃辣",
    "我从小就不吃辣椒",
    "吃辣的我都不吃",
    "火锅可以，但我不吃辣",
    "今天吃火锅",
    "Please don't forget the milk",
    "I write C++ and C# at work",
    "Mail me: a.b@x.com!",
    "明天5：30開會，別遲到",
    "太好吃了😀",
    "ＡＢＣ公司的面试",
    "看 https://example.com/a?b=e#f 这个",
    "Caroline's café is closed",
    "価格は１，０００円です",
    "❤️ you",
]


@pytest.fixture(scope="module")
def shelf(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    with shelved(engine, tmp_path_factory.mktemp("lexical"), TEXTS) as filled:
        filled.put_texts("another", *TEXTS)
        yield filled


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"不吃辣"', ["火锅可以，但我不吃辣", "我从小就不吃辣椒", "我不吃辣"]),
        ("“不吃辣”", ["火锅可以，但我不吃辣", "我从小就不吃辣椒", "我不吃辣"]),
        ('"不吃辣" AND 火锅', ["火锅可以，但我不吃辣"]),
        ('火锅 -"不吃辣"', ["今天吃火锅"]),
        ("don't", ["Please don't forget the milk"]),
        ("don’t", ["Please don't forget the milk"]),
        ('"don\'t"', ["Please don't forget the milk"]),
        ("forgetting", ["Please don't forget the milk"]),
        ("C++", ["I write C++ and C# at work"]),
        ("c#", ["I write C++ and C# at work"]),
        ('"c+"', ["I write C++ and C# at work"]),
        ('"c#+"', []),
        ("a.b@x.com", ["Mail me: a.b@x.com!"]),
        ("5:30", ["明天5：30開會，別遲到"]),
        ("5:30 开会", ["明天5：30開會，別遲到"]),
        ('"开会，别迟到"', ["明天5：30開會，別遲到"]),
        ('"遲到"', ["明天5：30開會，別遲到"]),
        ("😀", ["太好吃了😀"]),
        ("abc", ["ＡＢＣ公司的面试"]),
        ("ＡＢＣ", ["ＡＢＣ公司的面试"]),
        ("https://example.com/a?b=e#f", ["看 https://example.com/a?b=e#f 这个"]),
        ("example.com", ["看 https://example.com/a?b=e#f 这个"]),
        ("caroline", ["Caroline's café is closed"]),
        ("Caroline’s CAFE\u0301", ["Caroline's café is closed"]),
        ("价格", []),  # Japanese 価 is neither the traditional nor the simplified form
        ("1,000", ["価格は１，０００円です"]),
        ("❤", ["❤️ you"]),
        ("the", ["Please don't forget the milk"]),
        ("都", ["吃辣的我都不吃"]),
        ("zebra", []),
    ],
)
def test_search_finds_matching_messages(shelf: Shelf, text: str, expected: list[str]) -> None:
    assert shelf.find("u", text) == expected


def test_more_and_rarer_matching_terms_rank_higher(shelf: Shelf) -> None:
    best, *others = shelf.find("u", "不吃辣椒")
    assert best == "我从小就不吃辣椒"
    assert others == ["火锅可以，但我不吃辣", "吃辣的我都不吃", "我不吃辣"]


def test_score_is_the_sum_of_matched_term_weights(shelf: Shelf) -> None:
    parsed_query = query("(caroline AND closed) OR milk OR forget")
    weights = dict(zip((leaf.tokens[0] for leaf in parsed_query.leaves), shelf.weigh("u", parsed_query), strict=True))
    assert {shelf.messages[hit.sequence].content: hit.score for hit in shelf.hits("u", parsed_query)} == {
        "Caroline's café is closed": weights["carolin"] + weights["close"],
        "Please don't forget the milk": weights["milk"] + weights["forget"],
    }


@pytest.mark.parametrize("text", ["", "-zebra", "NOT zebra OR NOT yak"])
def test_query_without_positive_terms_lists_by_time(shelf: Shelf, text: str) -> None:
    assert shelf.find("u", text) == TEXTS[::-1]
    assert {hit.score for hit in shelf.hits("u", query(text))} == {0.0}


def test_negated_query_lists_the_other_messages(shelf: Shelf) -> None:
    assert shelf.find("u", "-吃 NOT c") == [text for text in TEXTS[::-1] if "吃" not in text and "C+" not in text]


def test_or_not_is_a_union(shelf: Shelf) -> None:
    assert shelf.find("u", "不吃辣椒 AND 从小 OR NOT 吃")[0] == "我从小就不吃辣椒"
    assert set(shelf.find("u", "从小 OR NOT 吃")) == {t for t in TEXTS if "从小" in t or "吃" not in t}


def test_messages_of_another_user_are_not_visible(engine: Engine, tmp_path: Path) -> None:
    with shelved(engine, tmp_path, ["火锅"], user="u") as shelf:
        shelf.put_texts("U", "火锅 U")
        shelf.put_texts("u ", "火锅 u")
        for text in ("火锅", "", "-zebra", "a OR NOT b", "u", "U"):
            assert set(shelf.find("u", text)) <= {"火锅"}
            assert shelf.find("x", text) == []


@pytest.mark.parametrize("user", ["界" * 128, "😀" * 128, "user:1 OR *", 'a"b\\', " ", "\u202eabc", "é", "e\u0301"])
def test_arbitrary_user_id_is_supported(engine: Engine, tmp_path: Path, user: str) -> None:
    with shelved(engine, tmp_path, ["火锅"], user=user) as shelf:
        assert shelf.find(user, "火锅") == ["火锅"]
        assert shelf.find(user[1:], "火锅") == []


def test_writes_of_another_user_change_neither_scores_nor_order(engine: Engine, tmp_path: Path) -> None:
    texts = ["火锅 面条", "火锅", "面条 咖啡", "咖啡 火锅 烧烤"]
    parsed_query = query("火锅 面条 咖啡")
    with shelved(engine, tmp_path, texts) as shelf:
        before = shelf.hits("u", parsed_query)
        shelf.put_texts("loud", *["火锅 咖啡 咖啡"] * 60)
        assert shelf.hits("u", parsed_query) == before
        shelf.remove(*range(10, 40))
        assert shelf.hits("u", parsed_query) == before


def test_filters_are_half_open_and_combine(engine: Engine, tmp_path: Path) -> None:
    with shelved(engine, tmp_path) as shelf:
        shelf.put(
            message("u", "火锅 1", 10, Role.USER, "c"),
            message("u", "火锅 2", 20, Role.ASSISTANT, "c"),
            message("u", "火锅 3", 30, Role.USER, "d"),
            message("u", "火锅 4", -40, Role.SYSTEM, "c d"),
        )
        expected = {
            EVERYTHING: [3, 2, 1, 4],
            Filter(since_us=10, until_us=30): [2, 1],
            Filter(until_us=10): [4],
            Filter(since_us=30): [3],
            Filter(since_us=20, until_us=20): [],
            Filter(since_us=30, until_us=10): [],
            Filter(role=Role.USER): [3, 1],
            Filter(conversation_id="c"): [2, 1],
            Filter(conversation_id="c d"): [4],
            Filter(exclude_conversation_ids=("c",)): [3, 4],
            Filter(exclude_conversation_ids=("c", "c d")): [3],
            Filter(conversation_id="c", exclude_conversation_ids=("c",)): [],
            Filter(role=Role.USER, conversation_id="c", since_us=0): [1],
        }
        for message_filter, contents in expected.items():
            for text in ("火锅", "火锅 面条", ""):
                assert shelf.find("u", text, message_filter) == [f"火锅 {number}" for number in contents], (
                    message_filter,
                    text,
                )


def test_versions_after_the_pinned_sequence_are_not_listed(engine: Engine, tmp_path: Path) -> None:
    with shelved(engine, tmp_path, ["火锅 1", "火锅 2"]) as shelf:
        shelf.put_texts("u", "火锅 3")
        for text in ("火锅", "火锅 面条", "", "-面条"):
            parsed_query = query(text)
            ranking = shelf.freeze("u", parsed_query)
            pinned = {
                pin: [
                    h.sequence for h in shelf.page("u", parsed_query, ranking._replace(applied_sequence=pin), limit=9)
                ]
                for pin in (0, 1, 2, 3, LATEST)
            }
            assert pinned == {0: [], 1: [1], 2: [2, 1], 3: [3, 2, 1], LATEST: [3, 2, 1]}


def test_limit_below_one_returns_nothing(shelf: Shelf) -> None:
    assert shelf.page("u", query("火锅"), FrozenRanking(LATEST, (1.0,)), limit=0) == []
