"""Tests for the parsing of a skill's lexicon and the synonyms that it adds to a question."""

from __future__ import annotations

import pytest

from nomemory.recall.skills.steering.lexicon import MAX_ALIASES, MAX_ENTRIES, MAX_EXPANSIONS
from nomemory.recall.skills.steering.steering import PlannerConfiguration, read_planner_configuration

CRM = "- 客户: 顾客, 甲方, client, key account\n- 报价: quote, pricing"


def read(*lines: str) -> PlannerConfiguration:
    return read_planner_configuration({"SKILL.md": "\n".join(("## 词表 · Lexicon", *lines))})


@pytest.mark.parametrize(
    "line",
    [
        "- 客户: 顾客, 甲方, client",
        "* **客户**：顾客，甲方、`client`",
        "1. `客户`: 顾客; 甲方；client",
        "+ 客户:顾客/甲方 | client",
        "- 客户: 客户, 顾客,, 顾客, 甲方, client",
        "- 客户: ＂顾客＂, 「甲方」, (client",
    ],
)
def test_entries_are_parsed_in_every_notation(line: str) -> None:
    steering = read("Prose.", line)
    assert steering.invalid_entries == ()
    assert steering.lexicon.aliases == {"客户": ("顾客", "甲方", "client")}


def test_lexicon_file_is_read_in_addition_to_the_skill() -> None:
    lexicon = "# 词表\n\n- 客户: buyer\n\n## 产品\n\n- 旗舰版: 高级版\n"
    steering = read_planner_configuration({"SKILL.md": "## Lexicon\n- 客户: 顾客", "references/lexicon.md": lexicon})
    assert steering.lexicon.aliases == {"客户": ("顾客", "buyer"), "旗舰版": ("高级版",)}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("- 客户", "a colon and at least one alias"),
        ("- 客户:", "a colon and at least one alias"),
        ("- !!: 顾客", "a letter or a digit"),
        ("- " + "客" * 41 + ": 顾客", "at most 40 characters"),
        ("- 客户: " + "x" * 41, "at most 40 characters"),
    ],
)
def test_unreadable_line_is_reported_with_its_number(line: str, why: str) -> None:
    steering = read(line)
    assert [item.line for item in steering.invalid_entries] == [2]
    assert why in steering.invalid_entries[0].problem
    assert steering.lexicon.aliases == {}


@pytest.mark.parametrize(
    ("question", "brought"),
    [
        ("客户怎么说？", ("顾客", "甲方", "client", "key account")),
        ("这位顾客怎么说？", ("客户", "甲方", "client", "key account")),
        ("這位顧客怎麼說？", ("客户", "甲方", "client", "key account")),
        ("What did my Clients say?", ("客户", "顾客", "甲方", "key account")),
        ("my client’s view", ("客户", "顾客", "甲方", "key account")),
        ("KEY  Accounts!", ("客户", "顾客", "甲方", "client")),
        ("我的client呢", ("客户", "顾客", "甲方", "key account")),
        ("顾客和甲方的quote", ("客户", "报价", "pricing", "client", "key account")),
        ("the subclient and clientele, an account", ()),
        ("今天天气", ()),
        ("", ()),
    ],
)
def test_term_in_a_question_adds_its_synonyms(question: str, brought: tuple[str, ...]) -> None:
    assert read(CRM).find_synonyms(question) == brought


def test_longer_term_takes_precedence_over_contained_terms() -> None:
    steering = read("- 客户: 顾客", "- 客户端: app", "- 户端: 门口")
    assert steering.find_synonyms("客户端闪退") == ("app",)
    assert steering.find_synonyms("客户和客户端") == ("顾客", "app")


def test_common_question_word_adds_no_synonyms() -> None:
    assert read("- IT: 信息技术").find_synonyms("Is it late?") == ()
    assert read("- IT: 信息技术").find_synonyms("信息技术") == ("IT",)


def test_alias_of_two_terms_adds_both() -> None:
    assert read("- 客户: 甲方", "- 买家: 甲方, buyer").find_synonyms("甲方") == ("客户", "买家", "buyer")


def test_expansions_are_limited_with_canonical_terms_first() -> None:
    steering = read(
        *(f"- term{number}: shared, " + ", ".join(f"a{number}x{n}" for n in range(9)) for number in range(50))
    )
    brought = steering.find_synonyms("shared")
    assert brought == tuple(f"term{number}" for number in range(MAX_EXPANSIONS))


def test_lexicon_size_is_limited_and_omissions_are_noted() -> None:
    aliases = ", ".join(f"a{number}" for number in range(10_000))
    steering = read(f"- x: {aliases}", *(f"- t{number}: u{number}" for number in range(3_000)))
    assert len(steering.lexicon.aliases) == MAX_ENTRIES
    assert len(steering.lexicon.aliases["x"]) == MAX_ALIASES
    assert steering.invalid_count == 1 + 3_000 + 1 - MAX_ENTRIES
    assert len(steering.invalid_entries) == 200
    assert len(steering.notes) < 10
    assert steering.notes[-1].endswith("more entries of the skill are invalid")


@pytest.mark.parametrize(
    ("alias", "term"),
    [
        ('") OR user_id:', "OR user_id:"),
        ("”) ＯＲ （user_id:", "OR user_id:"),
        ("-顾客", "顾客"),
        ("－－顾客", "顾客"),
        ("「顾客」", "顾客"),
        ("顾客\x00\x1f", "顾客"),
        ("well-known", "well-known"),
    ],
)
def test_alias_is_searched_as_text_without_operators(alias: str, term: str) -> None:
    assert read(f"- x1: {alias}").find_synonyms("x1") == (term,)
