"""Tests for conversation turns that are not questions, and for turns that resolve references."""

from __future__ import annotations

from datetime import UTC, datetime

import grpc
import pytest
from recall.agent.scripted_query import ScriptedQuery

from chat_messages import new_message
from nomemory.recall import Budget, Question, Role, Turn, recall
from nomemory.text.question_detection import has_back_reference, is_statement

NOW = datetime(2026, 3, 14, 2, tzinfo=UTC)
USER, ASSISTANT = Role.USER, Role.ASSISTANT


def new_question(text: str = "", *turns: tuple[Role, str]) -> Question:
    return Question(text, NOW, turns=tuple(Turn(role, said_) for role, said_ in turns))


@pytest.mark.parametrize(
    ("turns", "sought"),
    [
        (((USER, "a"), (ASSISTANT, "b"), (USER, "c"), (USER, "d")), "c\nd"),
        (((USER, "a"), (ASSISTANT, "b")), "a"),
        (((ASSISTANT, "a"), (ASSISTANT, "b")), "b"),
        (((USER, "x" * 3_000 + "end"),), "x" * 497 + "end"),
    ],
)
def test_a_follow_up_question_searches_for_the_last_user_turn(turns: tuple[tuple[Role, str], ...], sought: str) -> None:
    assert new_question("", *turns).query_text == sought
    assert new_question("why?", *turns).query_text == "why?"


@pytest.mark.parametrize(
    "text",
    ["I love apple juice!", "Haha, yeah! Last time I hid behind a tree.", "我今天好累，不想做饭。", "天气真好！"],
)
def test_statement_is_recognized_as_conversation(text: str) -> None:
    assert is_statement(text)
    assert new_question(text).is_conversation


@pytest.mark.parametrize(
    "text",
    [
        "favourite food",
        "我的饮食偏好",
        "my allergies",
        "把我目前在吃的所有药列一下",
        "Tell me what I like.",
        "我对什么过敏",
        "What now?",
    ],
)
def test_questions_requests_and_names_are_not_small_talk(text: str) -> None:
    assert not new_question(text).is_conversation


def test_turns_are_used_only_for_questions_with_a_back_reference() -> None:
    before = (USER, "My sister moved to Lisbon.")
    assert has_back_reference("那是什么时候？")
    assert new_question("When was that?", before).referenced_turn == before[1]
    assert new_question("那是什么时候？", before).referenced_turn == before[1]
    assert not new_question("What is the name of my cat?", before).referenced_turn
    assert not new_question("", before).referenced_turn


def test_turn_repr_hides_its_text() -> None:
    assert "secret" not in repr(new_question("", (USER, "secret")).turns)


async def test_chat_turn_without_a_question_is_ranked_semantically() -> None:
    stub = ScriptedQuery([new_message("lin", f"m{n}", f"word number {n}", n) for n in range(1, 5)])
    result = await recall(stub, "lin", new_question("", (USER, "I am so hungry.")), budget=Budget(anchors=0))
    assert stub.methods()[:2] == ["SemanticSearch", "HybridSearch"]
    assert stub.requests[0].query_text == stub.requests[1].query_text == "I am so hungry."
    assert [item.message.message_id for item in result.evidence] == ["m1", "m2", "m3", "m4"]


async def test_chat_turn_is_ranked_lexically_without_semantic_search() -> None:

    messages = [new_message("lin", f"m{n}", f"word number {n}", n) for n in range(1, 4)]
    stub = ScriptedQuery(messages, failing={"SemanticSearch": grpc.StatusCode.FAILED_PRECONDITION})
    result = await recall(stub, "lin", new_question("", (USER, "I am so hungry.")), budget=Budget(anchors=0))
    assert {item.message.message_id for item in result.evidence} == {"m1", "m2", "m3"}
