"""The sample conversation and its labelled questions, as a recall would have retrieved them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from nomemory.recall.grounding.conclusion import conclude
from nomemory.recall.model.evidence import Evidence, Retrieval, Retrieved
from nomemory.recall.model.memory_view import Synthesis
from nomemory.recall.model.question import Question, Role
from nomemory.recall.passages.aspects import asked, content, coverage
from nomemory.recall.synthesis.extractive import extract

SAMPLE = Path(__file__).parents[3] / "sample"
NEIGHBOURS_BEFORE = 8
MOST_EVIDENCE = 6


@dataclass(frozen=True)
class Labelled:
    """A question of the sample and the ids of the messages that answer it."""

    question_id: str
    user_id: str
    category: str
    question: Question
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Answered:
    """What the rules make of some messages."""

    synthesis: Synthesis
    retrieval: Retrieval


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SAMPLE / name).read_text(encoding="utf-8").splitlines()]


@cache
def messages(user_id: str) -> tuple[Retrieved, ...]:
    """Return a person's messages in the order in which they were said."""
    return tuple(
        Retrieved(
            line["message_id"],
            datetime.fromisoformat(line["ts"]),
            Role(line["role"]),
            line["content"],
            line.get("name", ""),
            line["conversation_id"],
        )
        for line in _lines("messages.jsonl")
        if line["user_id"] == user_id
    )


@cache
def questions() -> tuple[Labelled, ...]:
    """Return all the questions."""
    return tuple(
        Labelled(
            line["question_id"],
            line["user_id"],
            line["category"],
            Question(line["question"], datetime.fromisoformat(line["now"])),
            tuple(line["evidence"]),
        )
        for line in _lines("questions.jsonl")
    )


def labelled(question_id: str) -> Labelled:
    """Return one question."""
    return next(one for one in questions() if one.question_id == question_id)


def said_before(one: Labelled) -> list[Retrieved]:
    """Return what had been said when the question was asked."""
    return [message for message in messages(one.user_id) if message.ts < one.question.now]


def nearest(one: Labelled) -> list[str]:
    """Return the ids of the messages whose words come nearest to a question, whether or not they answer it."""
    wanted = asked(one.question.reading)
    scored = [(coverage(wanted, [(content(m.content), 1.0)]), m.message_id) for m in said_before(one)]
    return [message_id for _, message_id in sorted(scored, reverse=True)[:MOST_EVIDENCE]]


def answer(one: Labelled, ids: Sequence[str]) -> Answered:
    """Answer a question from messages, best first, as an agent that took their neighbours too."""
    said = said_before(one)
    places = {message.message_id: place for place, message in enumerate(said)}
    retrieval = Retrieval()
    retrieval.add(said[places[message_id]] for message_id in ids)
    for message_id in ids:
        anchor = said[places[message_id]]
        around = said[max(0, places[message_id] - NEIGHBOURS_BEFORE) : places[message_id]]
        retrieval.add(message for message in around if message.conversation_id == anchor.conversation_id)
    evidence = [Evidence(said[places[message_id]], 1.0 - rank / 100) for rank, message_id in enumerate(ids)]
    return Answered(conclude(one.question, extract(one.question, evidence), retrieval, evidence), retrieval)
