"""Tests for the format of the sample conversation."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest

SAMPLE = Path(__file__).resolve().parent.parent / "sample"
ROLES = {"user", "assistant", "system"}
MESSAGE_FIELDS = {"user_id", "message_id", "ts", "role", "content", "conversation_id"}
OPTIONAL_FIELDS = {"name", "metadata"}
CATEGORIES = {
    "preference",
    "profile",
    "constraint",
    "project",
    "format",
    "schedule",
    "changed",
    "contradiction",
    "unanswerable",
}
CANARIES = ("青鸾匣", "Zephyrquill", "Marrowlight", "QK-88413", "桂花乌龙")
SHORT_REPLIES = {"好的", "ok", "😀"}
HAN = re.compile(r"[\u4e00-\u9fff]")
LATIN = re.compile(r"[A-Za-z]")


@dataclass(frozen=True, slots=True)
class SampleMessage:
    """A message of the sample."""

    user_id: str
    message_id: str
    ts: str
    role: str
    content: str
    conversation_id: str
    name: str = ""
    metadata: dict[str, str] = field(default_factory=dict)

    @property
    def at(self) -> datetime:
        return datetime.fromisoformat(self.ts)


@dataclass(frozen=True, slots=True)
class Question:
    """A labeled question of the sample."""

    question_id: str
    user_id: str
    question: str
    category: str
    evidence: list[str]
    answer: str | None
    now: str

    @property
    def asked_at(self) -> datetime:
        return datetime.fromisoformat(self.now)


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SAMPLE / name).read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def messages() -> list[SampleMessage]:
    return [SampleMessage(**row) for row in rows("messages.jsonl")]


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    return [Question(**row) for row in rows("questions.jsonl")]


def of_user(messages: list[SampleMessage], user_id: str) -> list[SampleMessage]:
    return [message for message in messages if message.user_id == user_id]


def conversations(messages: list[SampleMessage]) -> Iterator[list[SampleMessage]]:
    for _, group in groupby(messages, key=lambda message: (message.user_id, message.conversation_id)):
        yield list(group)


def test_every_message_has_the_fields_of_the_format() -> None:
    for row in rows("messages.jsonl"):
        assert set(row) >= MESSAGE_FIELDS
        assert set(row) <= MESSAGE_FIELDS | OPTIONAL_FIELDS
        assert row["role"] in ROLES
        assert row["content"].strip()


def test_times_are_utc_and_metadata_values_are_strings(messages: list[SampleMessage]) -> None:
    for message in messages:
        assert message.ts.endswith("Z")
        assert message.at.utcoffset() == timedelta()
        assert all(isinstance(text, str) for text in message.metadata.values())
    assert any(message.metadata for message in messages)


def test_message_ids_are_unique_and_contain_their_user(messages: list[SampleMessage]) -> None:
    keys = Counter((message.user_id, message.message_id) for message in messages)
    assert set(keys.values()) == {1}
    assert all(message.message_id.startswith(f"{message.user_id}-") for message in messages)


def test_the_sample_has_two_main_users_and_a_small_third(messages: list[SampleMessage]) -> None:
    sizes = Counter(message.user_id for message in messages)
    assert set(sizes) == {"lin", "sam", "mei"}
    assert 300 <= sizes.total() <= 400
    assert 0.55 <= sizes["lin"] / (sizes["lin"] + sizes["sam"]) <= 0.65
    assert sizes["mei"] == 10


def test_conversation_messages_are_contiguous(messages: list[SampleMessage]) -> None:
    runs = Counter(run[0].conversation_id for run in conversations(messages))
    assert set(runs.values()) == {1}
    assert all(run[0].conversation_id.startswith(f"{run[0].user_id}-") for run in conversations(messages))


def test_times_are_nondecreasing_with_few_ties(messages: list[SampleMessage]) -> None:
    ties = 0
    for user_id in ("lin", "sam", "mei"):
        for earlier, later in pairwise(of_user(messages, user_id)):
            assert earlier.at <= later.at, later.message_id
            ties += earlier.at == later.at
    assert 3 <= ties <= 8


@pytest.mark.parametrize("user_id", ["lin", "sam"])
def test_each_main_user_spans_a_year_in_many_conversations(messages: list[SampleMessage], user_id: str) -> None:
    user_messages = of_user(messages, user_id)
    assert user_messages[-1].at - user_messages[0].at >= timedelta(days=365)
    assert len({message.conversation_id for message in user_messages}) >= 20
    assert {message.role for message in user_messages} == ROLES


@pytest.mark.parametrize("user_id", ["lin", "sam"])
def test_each_main_user_writes_in_both_languages(messages: list[SampleMessage], user_id: str) -> None:
    contents = [message.content for message in of_user(messages, user_id) if message.role == "user"]
    assert sum(bool(HAN.search(text)) for text in contents) >= 4
    assert sum(bool(LATIN.search(text)) for text in contents) >= 10


def test_only_short_replies_repeat_in_the_sample(messages: list[SampleMessage]) -> None:
    counts = Counter(message.content for message in messages)
    assert {content for content, times in counts.items() if times > 1} <= SHORT_REPLIES


def test_difficult_kinds_of_text_are_included(messages: list[SampleMessage]) -> None:
    contents = [message.content for message in messages]
    assert sum(len(content) >= 1000 for content in contents) >= 3
    assert sum(len(content) <= 4 for content in contents) >= 5
    everything = "\n".join(contents)
    for sign in ("https://", "@xiaomantongshu.example", "C++", "std::vector", "5:30", "ＡＢＣ", "下週三要去體檢", "👍"):
        assert sign in everything


@pytest.mark.parametrize("canary", CANARIES)
def test_canary_words_occur_in_the_messages_of_one_user_only(
    messages: list[SampleMessage], questions: list[Question], canary: str
) -> None:
    holders = {message.user_id for message in messages if canary.lower() in message.content.lower()}
    assert holders == {"mei"}
    askers = {question.user_id for question in questions if canary in f"{question.question} {question.answer}"}
    assert askers <= {"mei"}


def test_question_ids_are_unique_and_all_categories_used(questions: list[Question]) -> None:
    assert len({question.question_id for question in questions}) == len(questions)
    assert 40 <= len(questions) <= 60
    assert {question.category for question in questions} == CATEGORIES


def test_evidence_is_earlier_messages_of_the_user(messages: list[SampleMessage], questions: list[Question]) -> None:
    messages_by_id = {(message.user_id, message.message_id): message for message in messages}
    for question in questions:
        assert len(set(question.evidence)) == len(question.evidence)
        for message_id in question.evidence:
            evidence = messages_by_id[question.user_id, message_id]
            assert evidence.at < question.asked_at, (question.question_id, message_id)


def test_only_unanswerable_questions_lack_evidence_and_an_answer(questions: list[Question]) -> None:
    for question in questions:
        unanswerable = question.category == "unanswerable"
        assert (not question.evidence) is unanswerable, question.question_id
        assert (question.answer is None) is unanswerable, question.question_id
    assert sum(question.category == "unanswerable" for question in questions) >= 6


@pytest.mark.parametrize("user_id", ["lin", "sam"])
def test_questions_are_asked_in_both_languages(questions: list[Question], user_id: str) -> None:
    user_questions = [question.question for question in questions if question.user_id == user_id]
    assert sum(bool(HAN.search(text)) for text in user_questions) >= 5
    assert sum(not HAN.search(text) for text in user_questions) >= 5


def test_changes_and_contradictions_have_several_evidence_messages(questions: list[Question]) -> None:
    for question in questions:
        if question.category in {"changed", "contradiction"}:
            assert len(question.evidence) >= 2, question.question_id


def test_readme_names_existing_messages_and_correct_counts(
    messages: list[SampleMessage], questions: list[Question]
) -> None:
    page = (SAMPLE / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\b(?:lin|sam|mei)-\d{4}\b", page))
    assert named
    assert named <= {message.message_id for message in messages}
    assert f"| `messages.jsonl` | {len(messages)} |" in page
    assert f"| `questions.jsonl` | {len(questions)} |" in page
    flowing = " ".join(page.split())
    for user_id in ("lin", "sam"):
        user_messages = of_user(messages, user_id)
        held = len({message.conversation_id for message in user_messages})
        assert f"{len(user_messages)} messages in {held} conversations" in flowing
