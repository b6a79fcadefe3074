"""The text that BuildContext searches for."""

from __future__ import annotations

import pytest

from nomemory.recall.context.query_text import build_query_text
from nomemory.recall.model.question import Role, Turn

TOPIC = Turn(Role.USER, "I am planning our trip to Kochi.")
REPLY = Turn(Role.ASSISTANT, "When do you want to leave?")
LONG = Turn(Role.USER, "We would like to leave on the day after the birthday of my sister.")
SHORT = Turn(Role.USER, "On Friday.")


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([], ""),
        ([LONG], [LONG]),
        ([TOPIC, REPLY, LONG], [TOPIC, LONG]),
        ([REPLY, LONG], [LONG]),
        ([TOPIC, REPLY, LONG, REPLY, SHORT], [TOPIC, LONG, REPLY, SHORT]),
        ([TOPIC, REPLY, SHORT], [TOPIC, REPLY, SHORT]),
        ([REPLY], [REPLY]),
    ],
)
def test_the_users_first_turn_precedes_the_last_one(turns: list[Turn], expected: list[Turn]) -> None:
    assert build_query_text(turns) == "\n".join(turn.text for turn in expected)


def test_the_first_turn_is_shortened() -> None:
    assert build_query_text([Turn(Role.USER, "a" * 300), LONG]) == f"{'a' * 200}\n{LONG.text}"


def test_turns_over_twenty_turns_back_are_not_searched() -> None:
    assert build_query_text([TOPIC, *[REPLY] * 18, LONG]) == f"{TOPIC.text}\n{LONG.text}"
    assert build_query_text([TOPIC, *[REPLY] * 19, LONG]) == LONG.text


def test_the_users_last_turn_is_searched_however_many_replies_follow() -> None:
    assert build_query_text([TOPIC, REPLY, LONG, *[REPLY] * 30]) == f"{TOPIC.text}\n{LONG.text}"
