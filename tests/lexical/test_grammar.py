"""Tests for the query grammar: every text is parsed to a query."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lexical.engine import Engine
from lexical.shelf import Shelf, query, shelved

from nomemory.server.faults import Fault, Reason
from nomemory.server.search.grammar.grammar import QueryLimits, parse_query
from nomemory.server.search.grammar.tree import AllOf, AnyOf, Leaf, Node, TokenField
from nomemory.text.analysis import tokenize
from nomemory.text.normalization import remove_invisible_characters

BOUNDLESS = QueryLimits(chars=10**7, terms=10**7, depth=50)


def written(node: Node) -> str:
    """Format a tree: `stem`, `"literal tokens"`, `(any any)`, `[all all !not]`."""
    match node:
        case Leaf(TokenField.TERMS, tokens):
            return tokens[0]
        case Leaf(_, tokens):
            return '"' + " ".join(tokens) + '"'
        case AnyOf(parts):
            return "(" + " ".join(map(written, parts)) + ")"
        case AllOf(required, excluded):
            return "[" + " ".join([*map(written, required), *("!" + written(node) for node in excluded)]) + "]"


def read(text: str) -> str:
    return written(query(text).root)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        # words are ranked, phrases are literal
        ("辣椒油", "(辣椒 椒油)"),
        ("cats running", "(cat run)"),
        ('"Cats 辣椒"', '"cats 辣 椒"'),
        ("“不吃辣”「川菜」『火锅』＂辣＂", '("不 吃 辣" "川 菜" "火 锅" "辣")'),
        ("他说“不吃辣”", '(他说 "不 吃 辣")'),
        # juxtaposition, AND, OR, NOT
        ("cat AND dog", "[cat dog]"),
        ("cat OR dog fish", "(cat dog fish)"),
        ("cat dog AND fish", "(cat [dog fish])"),
        ("cat AND dog OR fish", "([cat dog] fish)"),
        ("cat ＡＮＤ dog", "[cat dog]"),
        ("cat and dog", "(cat dog)"),
        ("cat AND NOT dog", "[cat !dog]"),
        ("NOT cat AND dog", "[dog !cat]"),
        ("cat -dog", "[cat !dog]"),
        ("cat －dog", "[cat !dog]"),
        ("-dog cat fish", "[(cat fish) !dog]"),
        ("cat OR NOT dog", "(cat [!dog])"),
        ("cat -dog OR fish", "([cat !dog] fish)"),
        ("-cat -dog", "[!cat !dog]"),
        ("NOT cat AND NOT dog fish", "[fish !cat !dog]"),
        ('-"hot pot" -(cat dog)', '[!"hot pot" !(cat dog)]'),
        ("NOT NOT cat", "cat"),
        ("fish -(-cat)", "(fish cat)"),
        # parentheses
        ("(cat dog) AND fish", "[(cat dog) fish]"),
        ("（cat dog） AND fish", "[(cat dog) fish]"),
        ("((cat))", "cat"),
        ("(cat)AND(dog)", "[cat dog]"),
        # a run of characters is exact under AND and NOT, at any depth
        ("辣椒油 AND cat", '["辣 椒 油" cat]'),
        ("cat -辣椒油", '[cat !"辣 椒 油"]'),
        ("cat AND (辣椒油 OR the)", '[cat ("辣 椒 油" "the")]'),
        ("辣椒油 (cat AND dog)", "(辣椒 椒油 [cat dog])"),
        # fall back to characters
        ("辣", '"辣"'),
        ("辣 火锅", '("辣" 火锅)'),
        ("the", '"the"'),
        ("the of", '("the" "of")'),
        ("the cat", "cat"),
        ("the OR cat", '("the" cat)'),
        ("the AND cat", '["the" cat]'),
        ("what's the cat's name", "(cat name)"),
        ("don't", '"don \' t"'),
        ("don't shout", "shout"),
        ("O'Brien", '"o \' brien"'),
        # inner punctuation makes a phrase, the sentence's punctuation is dropped
        ("C++ C#.", '("c + +" "c #")'),
        ("a.b@c.com,", '"a . b @ c . com"'),
        ("5：30", '"5 : 30"'),
        ("well-known", '"well - known"'),
        ("--help", "help"),
        ("今天好开心😀！", '(今天 天好 好开 开心 "😀")'),
        ("你好，世界。apple、banana？", "(你好 世界 appl banana)"),
        ("用iPhone拍照", '("用" iphon 拍照)'),
        ("用iPhone拍照 AND cat", '["用 iphone 拍 照" cat]'),
        ("火锅 ?", "火锅"),
        ("？", '"?"'),
        # invalid operators are text
        ("AND", '"and"'),
        ("cat AND", "cat"),
        ("cat AND OR dog", "(cat dog)"),
        ("NOT", '"not"'),
        ("cat (", "cat"),
        ("cat)", "cat"),
        ("()", '"( )"'),
        ('cat "', "cat"),
        ('""', '"" ""'),
        (":)", '": )"'),
        ("haha :)", "haha"),
        ("-", '"-"'),
        ("-_-", '"- _ -"'),
        ("cat AND ()", '[cat "( )"]'),
        # empty queries
        ("", "[]"),
        (" \u3000\t\u200b", "[]"),
    ],
)
def test_query_is_parsed_to_the_expected_tree(text: str, tree: str) -> None:
    assert read(text) == tree


@pytest.mark.parametrize(
    ("text", "ranks", "uniform"),
    [
        ("", False, True),
        ("-辣", False, True),
        ("-辣 -火锅", False, True),
        ("NOT 辣 OR NOT 火锅", False, True),
        ("辣", True, True),
        ('"不吃辣" AND 火锅 -cat', True, True),
        ("cat dog", True, False),
        ("cat OR NOT dog", True, False),
        ("辣椒油", True, False),
    ],
)
def test_queries_with_required_or_optional_terms_rank_by_score(text: str, *, ranks: bool, uniform: bool) -> None:
    parsed_query = query(text)
    assert (bool(parsed_query.leaves), parsed_query.has_uniform_score) == (ranks, uniform)


def test_leaves_are_distinct_scoring_terms_in_query_order() -> None:
    parsed_query = query('辣椒 (cat AND "a b") -dog OR (cat -fish)')
    assert [written(leaf) for leaf in parsed_query.leaves] == ["辣椒", "cat", '"a b"']


@given(st.text(st.characters() | st.sampled_from(' "“”「」()（）-－ANDORT\u0301\u200b辣a'), max_size=80))
def test_arbitrary_text_is_a_query_and_blank_text_is_empty(text: str) -> None:
    assert parse_query(text, BOUNDLESS).is_empty == (tokenize(remove_invisible_characters(text)) == [])


@pytest.mark.parametrize("unit", ['"', "「", "(", ")", "-", "'", "NOT ", "a AND ", "( )", "(-"])
def test_long_queries_are_parsed_in_linear_time(unit: str) -> None:
    began = time.process_time()
    assert not parse_query((unit * 20_000)[:20_000], BOUNDLESS).is_empty
    assert time.process_time() - began < 4


def test_deep_nesting_is_rejected_without_recursion() -> None:
    with pytest.raises(Fault):
        parse_query("(" * 20_000 + "a" + ")" * 20_000, BOUNDLESS)


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("x" * 41, "is longer than 40 characters"),
        ("((((a))))", "nests deeper than 3 levels"),
        ("q w e r y AND u", "has more than 5 terms"),
        ("-q -w -e -r -y -u", "has more than 5 terms"),
        ('"' + "辣" * 38 + '"' + " q", "is longer than 40 characters"),
        ('"' + "辣" * 33 + '" q', "has more than 5 terms"),
    ],
)
def test_exceeded_limit_is_a_violation_of_query_text(text: str, description: str) -> None:
    with pytest.raises(Fault) as raised:
        parse_query(text, QueryLimits(chars=40, terms=5, depth=3))
    assert raised.value.reason == Reason.ERROR_REASON_QUERY_TOO_COMPLEX
    assert [(v.field, v.description) for v in raised.value.violations] == [("query_text", description)]


@pytest.mark.parametrize("text", ["x" * 40, "(((a)))", "q w e r y", "(" * 30 + "a", '"' + "辣" * 38 + '"'])
def test_a_query_at_a_limit_is_parsed(text: str) -> None:
    parse_query(text, QueryLimits(chars=40, terms=5, depth=3))


PAGE = Path(__file__).parents[2] / "docs" / "query-grammar.md"
MESSAGES_ROW = re.compile(r"^\| (\d+) \| (.+) \|$", re.MULTILINE)
EXAMPLE_ROW = re.compile(r"^\| `(.+)` \| ([\d, ]*)\|.*\|$", re.MULTILINE)

EXAMPLES = PAGE.read_text().split("## Examples")[1]
MESSAGES = {int(number): text for number, text in MESSAGES_ROW.findall(EXAMPLES)}
CASES = [
    (text, [int(number) for number in re.findall(r"\d+", numbers)]) for text, numbers in EXAMPLE_ROW.findall(EXAMPLES)
]


@pytest.fixture(scope="module")
def shelf(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    with shelved(engine, tmp_path_factory.mktemp("lexical"), MESSAGES.values()) as filled:
        yield filled


def test_grammar_page_has_examples() -> None:
    rows = [line for line in EXAMPLES.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + len(MESSAGES) + len(CASES), "only the two headings are not parsed"
    assert list(MESSAGES) == list(range(1, len(MESSAGES) + 1))
    assert len(CASES) > 20


@pytest.mark.parametrize(("text", "numbers"), CASES)
def test_documented_example_finds_its_messages(shelf: Shelf, text: str, numbers: list[int]) -> None:
    assert shelf.find("u", text) == [MESSAGES[number] for number in numbers]


def test_a_pasted_text_is_searched_by_its_most_frequent_terms() -> None:
    text = "boiler valve boiler gasket boiler valve manifold sensor pump filter"
    root = parse_query(text, QueryLimits(chars=100, terms=2, depth=3)).root
    assert root == AnyOf((Leaf(TokenField.TERMS, ("boiler",)), Leaf(TokenField.TERMS, ("valv",))))
