"""Tests for the parsing of model answers: everything that the schema allows and habits of simple models."""

from __future__ import annotations

import json
import string
from collections.abc import Callable
from datetime import UTC
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.recall.llm.json_answer import InvalidAnswerError
from nomemory.recall.model.memory_view import DraftCitation, DraftConflict, DraftStatement, Section, Verdict
from nomemory.recall.reading.answer import LOOKUP_TOOLS, ModelAnswer, build_answer_schema, parse_answer

FILTER = {"role": "user", "time_range": {"since": "2026-01-01T00:00:00Z"}}
SEARCH = {"tool": "lexical_search", "args": {"query_text": '"不吃辣"', "filter": FILTER, "page_size": 50}}


def read(value: object) -> ModelAnswer:
    """Parse an answer; the label `m1` refers to the message `id-m1`."""
    return parse_answer(json.dumps(value, ensure_ascii=False), "id-{}".format, UTC)


def entry(text: object, *citations: object) -> dict[str, object]:
    return {"text": text, "citations": list(citations)}


def of_schema(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Draw a value of a schema; objects have all members or only the required ones."""
    if "anyOf" in schema:
        return st.one_of([of_schema(item) for item in schema["anyOf"]])
    return st.sampled_from(schema["enum"]) if "enum" in schema else OF_TYPE[schema["type"]](schema)


def an_object(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    members = {name: of_schema(item) for name, item in schema["properties"].items()}
    needed = {name: members[name] for name in schema["required"]}
    return st.fixed_dictionaries(members) | st.fixed_dictionaries(needed)


def a_list(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    max_items = min(schema["maxItems"], 3)
    return st.lists(of_schema(schema["items"]), min_size=schema.get("minItems", 0), max_size=max_items)


def a_string(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    if schema.get("format") == "date-time":
        return st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.isoformat())
    letters = string.ascii_letters + "不吃辣 "
    return st.text(letters, min_size=schema.get("minLength", 0), max_size=min(schema.get("maxLength", 20), 20))


OF_TYPE: dict[str, Callable[[dict[str, Any]], st.SearchStrategy[Any]]] = {
    "object": an_object,
    "array": a_list,
    "string": a_string,
    "boolean": lambda _: st.booleans(),
    "integer": lambda schema: st.integers(schema["minimum"], schema["maximum"]),
    "number": lambda schema: st.floats(schema["minimum"], schema["maximum"]),
}


@given(of_schema(dict(build_answer_schema())))
def test_values_allowed_by_the_schema_are_accepted(value: dict[str, Any]) -> None:
    answer = read(value)
    assert bool(answer.calls) == (not value["stop"] and bool(value["look_up"]))
    assert [call.tool for call in answer.calls] == [item["tool"] for item in value["look_up"] if answer.calls]
    assert answer.draft.verdict is Verdict(value["verdict"])


def test_schema_has_no_user_field_and_requires_role_and_end_time() -> None:
    schema: Any = build_answer_schema()
    assert "user_id" not in json.dumps(schema)
    variants = schema["properties"]["look_up"]["items"]["anyOf"]
    assert [variant["properties"]["tool"]["enum"] for variant in variants] == [[tool] for tool in LOOKUP_TOOLS]
    listing, words, meaning, _ = (variant["properties"]["args"] for variant in variants)
    assert listing["required"] == ["role", "until"]
    for search in (words, meaning):
        chosen = search["properties"]["filter"]
        assert {"query_text", "filter"} <= set(search["required"])
        assert chosen["required"] == ["role", "time_range"]
        assert chosen["properties"]["time_range"]["required"] == ["until"]


def test_view_statements_have_the_messages_of_their_labels() -> None:
    eats, allergic = {"message_id": "m1", "quote": "我不吃辣"}, {"message_id": "m2", "quote": "花生过敏"}
    answer = read(
        {
            "stop": True,
            "verdict": " Conflicting\n",
            "preferences": [entry(" 不吃辣 ", eats)],
            "constraints": [entry("对花生过敏", allergic)],
            "conflicts": [{"earlier": eats, "later": allergic}],
        }
    )
    first, other = DraftCitation("id-m1", "我不吃辣"), DraftCitation("id-m2", "花生过敏")
    assert answer.draft.statements == (
        DraftStatement(Section.PREFERENCES, "不吃辣", (first,)),
        DraftStatement(Section.CONSTRAINTS, "对花生过敏", (other,)),
    )
    assert answer.draft.verdict is Verdict.CONFLICTING
    assert answer.draft.conflicts == (DraftConflict(first, other),)


def test_several_calls_can_be_requested_at_once() -> None:
    around = {"tool": "neighbors", "args": {"message_id": "m1", "before": 8, "after": 0}}
    answer = read({"thought": "who is she?" + "!" * 900, "stop": False, "look_up": [SEARCH, around] * 4})
    assert [(call.tool, call.arguments) for call in answer.calls] == [
        ("lexical_search", SEARCH["args"]),
        ("neighbors", {"message_id": "id-m1", "before": 8, "after": 0}),
        ("lexical_search", SEARCH["args"]),
    ]
    assert len(answer.calls[0].thought) == 300


def test_single_call_object_is_accepted() -> None:
    (call,) = read({"stop": False, **SEARCH}).calls
    assert (call.tool, call.arguments) == ("lexical_search", SEARCH["args"])


@pytest.mark.parametrize(
    ("value", "citations"),
    [
        ("不吃辣", ()),
        (entry("不吃辣", "m1"), (DraftCitation("id-m1"),)),
        (entry("不吃辣", {"message_id": "m1", "quote": None}), (DraftCitation("id-m1"),)),
    ],
)
def test_plain_strings_and_labels_are_accepted(value: object, citations: tuple[DraftCitation, ...]) -> None:
    assert read({"profile": [value]}).draft.statements == (DraftStatement(Section.PROFILE, "不吃辣", citations),)


ODD: list[object] = [
    None,
    7,
    "",
    "  ",
    [],
    {},
    entry(None),
    entry(7),
    entry("x" * 501),
    {"citations": []},
    [["不吃辣"]],
]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_invalid_statement_is_omitted(odd: object) -> None:
    statements = read({"preferences": [odd, "不吃辣"], "profile": odd}).draft.statements
    assert [statement.text for statement in statements] == ["不吃辣"]


@pytest.mark.parametrize(
    "odd",
    [None, 7, "", {}, [], {"message_id": 7}, {"message_id": "m1", "quote": 7}, {"message_id": "m" * 300}],
    ids=repr,
)
def test_invalid_citation_is_omitted(odd: object) -> None:
    (statement,) = read({"preferences": [entry("x", odd, {"message_id": "m1", "quote": "不吃辣"})]}).draft.statements
    assert statement.citations == (DraftCitation("id-m1", "不吃辣"),)


@pytest.mark.parametrize("odd", [None, 7, "m1", [], ["m1"], {}, {"earlier": "m1"}, ["m1", 7], [[], []]], ids=repr)
def test_invalid_conflict_is_omitted(odd: object) -> None:
    assert read({"profile": [], "conflicts": [odd, [entry("a", "m1"), "m2"]]}).draft.conflicts == (
        DraftConflict(DraftCitation("id-m1"), DraftCitation("id-m2")),
    )


@pytest.mark.parametrize("odd", [None, 7, "", "true", "pending", ["supported"], {"verdict": "supported"}], ids=repr)
def test_invalid_verdict_is_replaced_by_the_rules(odd: object) -> None:
    assert read({"verdict": odd, "profile": ["不吃辣"]}).draft.verdict is None


def test_statements_and_citations_are_limited() -> None:
    endless = entry("again", *[{"message_id": "m1", "quote": "辣"}] * 20)
    statements = read({"profile": [endless] * 20}).draft.statements
    assert len(statements) == 12
    assert {len(statement.citations) for statement in statements} == {12}


def lookup_request(tool: object, **args: object) -> dict[str, object]:
    return {"stop": False, "look_up": [{"tool": tool, "args": args}]}


ANY: dict[str, object] = {"role": "any", "time_range": {"until": "2026-01-01"}}
BAD: dict[str, tuple[object, str]] = {
    "an unknown tool": (lookup_request("read_everything"), "messages_list, lexical_search, semantic_search, neighbors"),
    "the host's own ranking": (lookup_request("hybrid_search", query_text="辣", filter=ANY), '"tool"'),
    "a tool that is no string": (lookup_request(["neighbors"]), '"tool"'),
    "no arguments": ({"stop": False, "look_up": [{"tool": "neighbors"}]}, '"args"'),
    "a word for stop": ({"stop": "no", "look_up": [SEARCH]}, '"stop"'),
    "look-ups that are no list": ({"stop": False, "look_up": 7}, '"look_up"'),
    "a listing without a role": (
        lookup_request("messages_list", since="2026-01-01"),
        "messages_list: role: Field required",
    ),
    "a listing without a time": (lookup_request("messages_list", role="any"), "since and until"),
    "a search without a filter": (
        lookup_request("lexical_search", query_text="辣"),
        "lexical_search: filter: Field required",
    ),
    "a search without a role": (lookup_request("semantic_search", query_text="辣", filter={"time_range": {}}), "role"),
    "a search without a time": (
        lookup_request("lexical_search", query_text="辣", filter={"role": "user"}),
        "time_range",
    ),
    "a search with an open range": (
        lookup_request("lexical_search", query_text="辣", filter={"role": "user", "time_range": {}}),
        "since and until",
    ),
    "a filter that is none": (lookup_request("lexical_search", query_text="辣", filter=["user"]), "filter"),
    "too long an integer": (lookup_request("semantic_search", query_text="辣", filter=ANY, top_k=10**400), "15 digits"),
}


@pytest.mark.parametrize(("value", "why"), BAD.values(), ids=BAD.keys())
def test_invalid_request_is_rejected_with_a_message(value: object, why: str) -> None:
    with pytest.raises(InvalidAnswerError, match=why) as caught:
        read(value)
    assert "辣" not in str(caught.value)


@pytest.mark.parametrize("text", ["I would search for spicy food.", "", '{"stop": false, "look_', '{"summary": 1}'])
def test_invalid_answer_is_rejected(text: str) -> None:
    with pytest.raises(InvalidAnswerError, match="no JSON object"):
        parse_answer(text, str, UTC)


@pytest.mark.parametrize("thought", [None, 7, {"a": 1}])
def test_thought_of_another_type_is_ignored(thought: object) -> None:
    answer = read({"thought": thought, "stop": True, "verdict": "supported", "profile": [entry("a", "m1")]})
    assert answer.thought == ""
    assert [statement.text for statement in answer.draft.statements] == ["a"]
