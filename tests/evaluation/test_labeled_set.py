"""Tests for the format of labeled sets and the errors of invalid files."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evaluation.labeled_file import LabeledDataError, read_questions
from evaluation.labeled_set import read_sets

SAMPLE = Path(__file__).parent.parent.parent / "sample"

MESSAGE = {"user_id": "u", "message_id": "m1", "ts": "2025-01-01T00:00:00Z", "role": "user", "content": "我不吃辣"}
QUESTION = {"question_id": "q1", "user_id": "u", "question": "我吃辣吗？", "category": "food", "evidence": ["m1"]}


def lines(path: Path, *records: object) -> Path:
    path.write_text(
        "".join(f"{record if isinstance(record, str) else json.dumps(record)}\n" for record in records), "utf-8"
    )
    return path


def a_set(folder: Path, name: str, messages: list[object], questions: list[object]) -> None:
    lines(folder / f"{name}.messages.jsonl", *messages)
    lines(folder / f"{name}.questions.jsonl", *questions)


def test_sample_set_is_named_after_its_folder() -> None:
    (sample,) = read_sets(SAMPLE)
    assert (sample.name, len(sample.messages), len(sample.questions)) == ("sample", 377, 54)
    question = sample.questions[1]
    assert question.question_id == "lin-q02"
    assert sorted(question.evidence) == ["lin-0010", "lin-0041"]
    assert question.now == datetime(2025, 6, 30, 4, tzinfo=UTC)
    assert sum(item.is_answerable for item in sample.questions) == 46


def test_unanswerable_questions_are_recognized(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "q.jsonl",
        QUESTION,
        QUESTION | {"question_id": "q2", "category": "adversarial"},
        QUESTION | {"question_id": "q3", "evidence": []},
        {key: value for key, value in QUESTION.items() if key != "evidence"} | {"question_id": "q4", "answer": None},
    )
    assert [question.is_answerable for question in read_questions(path)] == [True, False, False, False]
    assert read_questions(path)[0].now is None


def test_sets_are_selected_by_name_and_sampled_evenly(tmp_path: Path) -> None:
    for name in ("a", "b"):
        questions = [QUESTION | {"question_id": f"q{n}"} for n in range(10)]
        a_set(tmp_path, name, [MESSAGE], [*questions])
    (chosen,) = read_sets(tmp_path, ["b"])
    assert chosen.name == "b"
    assert [question.question_id for question in chosen.limit_questions(3).questions] == ["q0", "q3", "q6"]
    assert len(chosen.limit_questions(0).questions) == len(chosen.limit_questions(99).questions) == 10


def test_limiting_question_users_keeps_all_messages_and_conversations() -> None:
    (whole,) = read_sets(SAMPLE)
    few = whole.restrict_to_users(["lin"])
    assert {question.user_id for question in few.questions} == {"lin"}
    assert few.messages == whole.messages
    assert whole.restrict_to_users([]) == whole
    assert few.questions[0].conversations["lin-0001"] == "lin-2025-03-03"


def test_same_user_id_in_two_sets_is_two_users(tmp_path: Path) -> None:
    for name in ("a", "b"):
        a_set(tmp_path, name, [MESSAGE, MESSAGE | {"user_id": f"only-{name}"}], [QUESTION])
    first, second = read_sets(tmp_path)
    assert [sorted(item.users) for item in (first, second)] == [["a:u", "only-a"], ["b:u", "only-b"]]
    assert [item.questions[0].user_id for item in (first, second)] == ["a:u", "b:u"]
    assert [item.messages[0].message.user_id for item in (first, second)] == ["a:u", "b:u"]


@pytest.mark.parametrize(
    ("messages", "questions", "position", "complaint"),
    [
        (["{"], [QUESTION], "x.messages.jsonl:1", "is not JSON"),
        ([MESSAGE, MESSAGE | {"ts": "yesterday"}], [QUESTION], "x.messages.jsonl:2", "ts: must be an RFC 3339 time"),
        ([MESSAGE | {"role": "cat"}], [QUESTION], "x.messages.jsonl:1", "role: must be one of"),
        ([MESSAGE], ["7"], "x.questions.jsonl:1", "is not a JSON object"),
        ([MESSAGE], [QUESTION, "", {}], "x.questions.jsonl:3", "question: is required; category: is required"),
        ([MESSAGE], [QUESTION, QUESTION], "x.questions.jsonl:2", "question_id: duplicate"),
        ([MESSAGE], [QUESTION | {"evidence": "m1"}], "x.questions.jsonl:1", "evidence: must be a list of message ids"),
        ([MESSAGE], [QUESTION | {"evidence": ["m9", "m8"]}], "x.questions.jsonl:1", "no message m8, m9"),
        ([MESSAGE], [QUESTION | {"user_id": "v"}], "x.questions.jsonl:1", "no message m1"),
        ([MESSAGE], [QUESTION | {"now": "2025-01-01"}], "x.questions.jsonl:1", "now: has no time zone"),
        ([MESSAGE], [], "x.questions.jsonl", "no questions"),
    ],
)
def test_errors_name_the_line(
    tmp_path: Path, messages: list[object], questions: list[object], position: str, complaint: str
) -> None:
    a_set(tmp_path, "x", messages, questions)
    with pytest.raises(LabeledDataError) as refused:
        read_sets(tmp_path)
    assert f"{tmp_path / position}" in str(refused.value)
    assert complaint in str(refused.value)


def test_excess_errors_are_counted(tmp_path: Path) -> None:
    with pytest.raises(LabeledDataError) as refused:
        read_questions(lines(tmp_path / "q.jsonl", *[{}] * 30))
    error_lines = str(refused.value).splitlines()
    assert len(error_lines) == 21
    assert error_lines[-1] == "… and 10 more"


def test_a_set_needs_both_files_and_a_folder_needs_a_set(tmp_path: Path) -> None:
    with pytest.raises(LabeledDataError, match=r": \*\.messages\.jsonl is missing"):
        read_sets(tmp_path)
    lines(tmp_path / "x.messages.jsonl", MESSAGE)
    with pytest.raises(LabeledDataError, match=r"x\.questions\.jsonl is missing from the same folder"):
        read_sets(tmp_path)
    with pytest.raises(LabeledDataError, match=r": y\.messages\.jsonl is missing"):
        read_sets(tmp_path, ["y"])
