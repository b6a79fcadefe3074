"""Tests for the extraction of a JSON object from a model answer."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.recall.llm.json_answer import InvalidAnswerError, extract_object

REQUIRED = {"stop"}
ANSWER = {"stop": False, "args": {"query_text": '"}{不吃辣'}}
TEXT = json.dumps(ANSWER, ensure_ascii=False)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        f"```json\n{TEXT}\n```",
        f"Sure! Here it is:\n{TEXT}\nIs there anything else?",
        f"我先想想 {{不对}}，然后：{TEXT}",
        f'<think>maybe {{"stop": true}}?</think>\n{TEXT}',
        f'{{"plan": 1}} {TEXT} {{"stop": true}}',
        f"[{TEXT}]",
        "{" * 40 + TEXT,
    ],
)
def test_object_is_extracted_from_surrounding_text(text: str) -> None:
    assert extract_object(text, REQUIRED) == ANSWER


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I cannot do that.",
        "null",
        '["stop"]',
        TEXT[:-1],
        '{"stop": NaN}',
        '{"stop": -Infinity}',
        '{"stop": 1e999}',
        '{"stop": "\\ud800"}',
        '{"stop": ' + "9" * 5_000 + "}",
        '{"stop":' * 20_000,
        '{"stop": false, "a": ' + "[" * 5_000 + "]" * 5_000 + "}",
        TEXT + " " * 64_000,
        "{" * 5_000,
    ],
)
def test_text_without_a_matching_object_is_rejected(text: str) -> None:
    with pytest.raises(InvalidAnswerError):
        extract_object(text, REQUIRED)


@given(st.text(alphabet='{}[]":,stop \\u\n`1e', max_size=200))
def test_arbitrary_text_yields_an_object_or_a_fixed_error(text: str) -> None:
    """The error message is the same for every text."""
    try:
        assert extract_object(text, REQUIRED).keys() & REQUIRED
    except InvalidAnswerError as bad:
        with pytest.raises(InvalidAnswerError, match=f"^{re.escape(str(bad))}$"):
            extract_object("", REQUIRED)


@given(json_values)
def test_arbitrary_json_value_is_parsed_unchanged(value: object) -> None:
    written = json.dumps({"stop": value})
    assert extract_object(f"```\n{written}\n```", REQUIRED) == json.loads(written)
