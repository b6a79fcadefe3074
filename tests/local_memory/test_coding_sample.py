"""Tests for the coding sample: its format, and the messages that hooks add to its prompts."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nomemory.agents.project_memory import MIN_SUFFICIENCY, ProjectMemory
from nomemory.agents.transcript_sync import HookEvent, parse_event
from nomemory.client.aio import AsyncClient
from nomemory.client.messages import chat_message
from nomemory.client.sync import Client
from running_server import Server

SAMPLE = Path("sample")
NEAR = 8


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SAMPLE / "coding" / name).read_text("utf-8").splitlines()]


MESSAGES, QUESTIONS, PROMPTS = rows("messages.jsonl"), rows("questions.jsonl"), rows("prompts.jsonl")
ANSWERABLE = [question for question in QUESTIONS if question["evidence"]]


@pytest.fixture(scope="module")
def talk(server: Server) -> Iterator[Client]:
    """The searchable sample conversation."""
    with Client(server.target) as client:
        messages = [chat_message(**{**row, "ts": datetime.fromisoformat(row["ts"])}) for row in MESSAGES]
        token = client.write(messages).write_token
        client.hybrid_search("kai", "port", at_least=token)
        yield client


@pytest.fixture(scope="module")
def shown(talk: Client, server: Server) -> dict[str, set[str]]:
    """The ids of the messages that the hooks add, by prompt id."""
    assert talk.count_messages("kai") == len(MESSAGES)

    async def measure() -> dict[str, set[str]]:
        async with AsyncClient(server.target) as client:
            memory = ProjectMemory(client)
            blocks = {
                row["prompt_id"]: await (
                    memory.search_rules(new_session(row))
                    if row["kind"] == "session"
                    else memory.search_related_messages(row["prompt"], new_session(row))
                )
                for row in PROMPTS
            }
        return {
            prompt_id: set(re.findall(r'^\["(kai-\d+)"', block or "", re.MULTILINE))
            for prompt_id, block in blocks.items()
        }

    return asyncio.run(measure())


def new_session(row: dict[str, Any]) -> HookEvent:
    """Return an event of a session that is not in the sample."""
    fields = json.dumps({"session_id": "new", "cwd": f"/work/{row['project']}"})
    event = parse_event(f"claude-code\n{row['user_id']}\n{fields}".encode(), datetime.now(UTC))
    assert event
    return event


def test_sample_matches_its_readme() -> None:
    ids = [row["message_id"] for row in MESSAGES]
    page = (SAMPLE / "README.md").read_text("utf-8")
    assert len(set(ids)) == len(ids) == 135
    assert len({row["conversation_id"] for row in MESSAGES}) == 11
    assert len(QUESTIONS) == 18
    assert f"{len(ids)} turns" in page
    assert f"Each of the {len(QUESTIONS)} questions" in page
    assert [row["ts"] for row in MESSAGES] == sorted(row["ts"] for row in MESSAGES)
    assert {row["role"] for row in MESSAGES} == {"user", "assistant", "tool"}
    for question in QUESTIONS:
        assert set(question["evidence"]) <= set(ids)
        assert (question["verdict"] == "INSUFFICIENT") == (not question["evidence"]) == (question["answer"] is None)


@pytest.mark.parametrize("question", ANSWERABLE, ids=[question["question_id"] for question in ANSWERABLE])
def test_hybrid_search_finds_the_evidence_within_its_project(talk: Client, question: dict[str, Any]) -> None:
    project = {"project": question["project"]}
    response = talk.hybrid_search("kai", question["question"], top_k=NEAR, metadata=project)
    assert {item.message.message_id for item in response.items} & set(question["evidence"])


def test_sample_questions_have_higher_sufficiency_than_general_ones(talk: Client) -> None:
    def likelihood(text: str) -> float:
        return talk.hybrid_search("kai", text, metadata={"project": "harbour"}).sufficiency

    questions = [question["question"] for question in ANSWERABLE if question["project"] == "harbour"]
    assert sum(likelihood(text) >= MIN_SUFFICIENCY for text in questions) >= len(questions) - 1
    for general in ("how do I center a div", "How do I exit vim?", "谁写了《红楼梦》？", "How tall is Mount Fuji?"):
        assert likelihood(general) < MIN_SUFFICIENCY


@pytest.mark.parametrize(("split", "recall", "silence"), [("tuning", 0.6, 0.85), ("held_out", 0.7, 0.8)])
def test_instructions_get_relevant_messages_and_unrelated_prompts_none(
    shown: dict[str, set[str]], split: str, recall: float, silence: float
) -> None:
    prompts = [row for row in PROMPTS if row["split"] == split]
    labelled = [(row["prompt_id"], item) for row in prompts if row["kind"] == "order" for item in row["evidence"]]
    assert sum(item in shown[prompt_id] for prompt_id, item in labelled) >= recall * len(labelled)
    unrelated = [row["prompt_id"] for row in prompts if not row["evidence"]]
    assert sum(not shown[prompt_id] for prompt_id in unrelated) >= silence * len(unrelated)


def test_instructions_get_few_messages_by_the_user_only(shown: dict[str, set[str]]) -> None:
    roles = {row["message_id"]: row["role"] for row in MESSAGES}
    for row in PROMPTS:
        if row["kind"] == "order" and not row["prompt"].endswith(("?", "？")):
            assert len(shown[row["prompt_id"]]) <= 5
            assert {roles[item] for item in shown[row["prompt_id"]]} <= {"user"}


def test_new_session_gets_the_rules_of_its_project_in_both_languages(shown: dict[str, set[str]]) -> None:
    sessions = {row["project"]: row for row in PROMPTS if row["kind"] == "session"}
    added = {project: shown[row["prompt_id"]] for project, row in sessions.items()}
    correct = {project: added[project] & set(row["evidence"]) for project, row in sessions.items()}
    assert sum(map(len, correct.values())) >= 0.75 * sum(map(len, added.values()))
    assert sum(map(len, correct.values())) >= 13
    assert {"kai-0093", "kai-0096", "kai-0103", "kai-0110", "kai-0116"} <= added["kiosk"]
