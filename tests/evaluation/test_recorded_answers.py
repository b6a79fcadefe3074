"""Tests for the complete recall evaluation with recorded model answers.

If a prompt was changed on purpose, record the answers again as described in `recorded_answers.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evaluation.recorded_answers import recorded, run, write_answers
from evaluation.recorded_endpoint import ANSWER, PROMPT, RecordedEndpoint, format_prompt, hash_prompt

QUESTIONS = 6
"""Those of one of the two people."""
ANSWERED = "wenqi-q1"


def body(user: str) -> dict[str, Any]:
    return {"messages": [{"role": "system", "content": "Answer."}, {"role": "user", "content": user}]}


def hashes(folder: Path) -> set[str]:
    return {item.name.removesuffix(PROMPT) for item in folder.glob(f"*{PROMPT}")}


def test_recorded_answers_reproduce_the_evaluation(tmp_path: Path) -> None:
    answers = recorded()
    write_answers(answers, tmp_path)
    result = run(tmp_path, "--json", str(tmp_path / "figures.json"))
    assert result.exit_code == 0, f"prompts have changed: see recorded_answers.py. {result.stderr}"
    figures = json.loads((tmp_path / "figures.json").read_text("utf-8"))["sets"]["recorded"]["Recall"]["all"]
    assert hashes(tmp_path) == {item["prompt"] for answers_given in answers.values() for item in answers_given}
    assert (figures["questions"], figures["waiting"], figures["by_rules"]) == (len(answers), 0, 0)
    assert figures["calls"] == pytest.approx(13 / 12, abs=1e-3), "one question requires a lookup first"
    assert figures["contradictions_found"] == figures["contradictions"] == 2
    assert figures["refused"] == figures["current_first"] == figures["right"] == 1
    assert 1_000 < figures["prompt_tokens_p50"] <= figures["prompt_tokens_p95"] < 4_000


def test_unanswered_prompts_are_reported_until_they_have_answers(tmp_path: Path) -> None:
    answered = recorded()[ANSWERED][0]["prompt"]
    (tmp_path / f"{answered}{ANSWER}").write_text("{}", encoding="utf-8")
    result = run(tmp_path, "--users", "wenqi", "--json", str(tmp_path / "figures.json"))
    prompt_hashes = hashes(tmp_path)
    assert result.exit_code == 3, result.stderr
    assert f"{QUESTIONS} prompts in " in result.stderr, "the answer leads to another prompt"
    assert len(prompt_hashes) == QUESTIONS + 1
    assert answered in prompt_hashes
    figures = json.loads((tmp_path / "figures.json").read_text("utf-8"))["sets"]["recorded"]["Recall"]["all"]
    assert (figures["waiting"], figures["questions"]) == (QUESTIONS, 0)
    assert "right" not in figures
    for name in prompt_hashes:
        assert hash_prompt((tmp_path / f"{name}{PROMPT}").read_text("utf-8")) == name


def test_question_without_a_time_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "messages.jsonl").write_text(
        '{"user_id": "u", "message_id": "m", "role": "user", "content": "hello", "ts": "2025-05-01T08:00:00Z"}\n'
    )
    (tmp_path / "questions.jsonl").write_text(
        '{"question_id": "q7", "user_id": "u", "question": "hello?", "category": "c", "evidence": ["m"]}\n'
    )
    result = run(tmp_path, "--data", str(tmp_path))
    assert result.exit_code == 1
    assert "q7: `now` is missing; --prompts requires it" in result.stderr


def test_question_is_rejected_after_its_first_missing_answer(tmp_path: Path) -> None:
    endpoint = RecordedEndpoint(tmp_path)
    known_hash = hash_prompt(format_prompt(body("known")))
    (tmp_path / f"{known_hash}{ANSWER}").write_text("yes", encoding="utf-8")
    endpoint.start_question()
    assert endpoint.answer(body("known"))[1]["choices"][0]["message"]["content"] == "yes"
    assert [endpoint.answer(body(text))[0] for text in ("new", "known")] == [401, 401]
    assert (endpoint.lacks_answer, len(endpoint.prompts)) == (True, 2)
    endpoint.start_question()
    assert endpoint.answer(body("known"))[0] == 200
    assert (endpoint.lacks_answer, len(endpoint.prompts), len(endpoint.unanswered_prompts)) == (False, 1, 1)


def test_prompt_file_is_readable_and_contains_the_answer_schema() -> None:
    schema = {"type": "object", "description": "甲"}
    format_ = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    text = format_prompt({**body("What?\nNow."), "response_format": format_})
    assert text.startswith("# System\n\nAnswer.\n\n# User\n\nWhat?\nNow.\n\n# Schema\n\n{")
    assert '"description": "甲"' in text
    assert hash_prompt(text) != hash_prompt(format_prompt(body("What?\nNow.")))
