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
        ([TOPIC, REPLY, LONG], [LONG]),
        ([TOPIC, LONG, REPLY, SHORT], [LONG, REPLY, SHORT]),
        ([TOPIC, REPLY, SHORT], [TOPIC, REPLY, SHORT]),
        ([REPLY], [REPLY]),
    ],
)
def test_a_short_last_turn_is_searched_with_two_turns_before_it(turns: list[Turn], expected: list[Turn]) -> None:
    assert build_query_text(turns, 32_000) == "\n".join(turn.text for turn in expected)


def test_the_users_last_turn_is_searched_however_many_replies_follow() -> None:
    assert build_query_text([TOPIC, LONG, *[REPLY] * 30], 32_000) == LONG.text


@pytest.mark.parametrize("max_chars", [1, 2, 3, 10, 50])
def test_query_has_at_most_the_maximum_number_of_characters(max_chars: int) -> None:
    for turns in ([LONG], [TOPIC, REPLY, SHORT]):
        assert 0 < len(build_query_text(turns, max_chars)) <= max_chars
