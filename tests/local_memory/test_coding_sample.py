"""The talk with a coding agent in the sample: its form, and how much of what is asked the hooks' search finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from nomemory.agents.hook_server import MIN_SUFFICIENCY
from nomemory.client.messages import chat_message
from nomemory.client.sync import Client
from served import Server

SAMPLE = Path("sample")
NEAR = 8


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SAMPLE / "coding" / name).read_text("utf-8").splitlines()]


MESSAGES, QUESTIONS = rows("messages.jsonl"), rows("questions.jsonl")
ANSWERABLE = [question for question in QUESTIONS if question["evidence"]]


@pytest.fixture(scope="module")
def talk(server: Server) -> Iterator[Client]:
    """The talk, where it can be found."""
    with Client(server.target) as client:
        said = [chat_message(**{**row, "ts": datetime.fromisoformat(row["ts"])}) for row in MESSAGES]
        token = client.write(said).write_token
        client.hybrid_search("kai", "port", at_least=token)
        yield client


def test_the_form_is_that_of_the_readme() -> None:
    ids = [row["message_id"] for row in MESSAGES]
    page = (SAMPLE / "README.md").read_text("utf-8")
    assert len(set(ids)) == len(ids) == 90
    assert len({row["conversation_id"] for row in MESSAGES}) == 8
    assert len(QUESTIONS) == 18
    assert f"{len(ids)} turns" in page
    assert f"Each of the {len(QUESTIONS)} questions" in page
    assert [row["ts"] for row in MESSAGES] == sorted(row["ts"] for row in MESSAGES)
    assert {row["role"] for row in MESSAGES} == {"user", "assistant", "tool"}
    for question in QUESTIONS:
        assert set(question["evidence"]) <= set(ids)
        assert (question["verdict"] == "INSUFFICIENT") == (not question["evidence"]) == (question["answer"] is None)


@pytest.mark.parametrize("question", ANSWERABLE, ids=[question["question_id"] for question in ANSWERABLE])
def test_what_proves_the_answer_is_found_in_its_project(talk: Client, question: dict[str, Any]) -> None:
    project = {"project": question["project"]}
    found = talk.hybrid_search("kai", question["question"], top_k=NEAR, metadata=project)
    assert {item.message.message_id for item in found.items} & set(question["evidence"])


def test_most_questions_are_told_apart_from_prompts_that_ask_nothing(talk: Client) -> None:
    def likelihood(text: str) -> float:
        return talk.hybrid_search("kai", text, metadata={"project": "harbour"}).sufficiency

    asked = [question["question"] for question in ANSWERABLE if question["project"] == "harbour"]
    assert sum(likelihood(text) >= MIN_SUFFICIENCY for text in asked) >= len(asked) - 1
    for idle in ("continue", "thanks", "commit this with a good message", "how do I center a div"):
        assert likelihood(idle) < MIN_SUFFICIENCY
