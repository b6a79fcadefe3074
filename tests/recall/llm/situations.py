"""Situations for planners and evidence for synthesisers, as small as can be."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from nomemory.recall.model.budget import Budget
from nomemory.recall.model.evidence import Evidence, Findings, Relation, Retrieval, Retrieved
from nomemory.recall.model.question import Question, Role
from nomemory.recall.model.trace import Step
from nomemory.recall.planning.base import Situation
from nomemory.recall.skills.loader import Skill

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
QUESTION = Question("我是不是说过我不吃辣？", NOW)
SKILL = Skill("small", "for tests", "Search for the words of the question.")
STEP = Step(
    1,
    "",
    "semantic_search",
    {"query_text": "辣", "filter": {"role": "user"}},
    1,
    message_ids=("m1",),
    observation="1 hit",
)


def said(*contents: str) -> list[Evidence]:
    """Return evidence m1, m2, … with these contents."""
    return [
        Evidence(Retrieved(f"m{number}", NOW - timedelta(days=number), Role.USER, content), 1 / number)
        for number, content in enumerate(contents, 1)
    ]


def found(*contents: str, relations: Sequence[Relation] = ()) -> Findings:
    """Return the same as findings."""
    evidence = said(*contents)
    retrieval = Retrieval()
    retrieval.add(one.message for one in evidence)
    return Findings(tuple(evidence), retrieval, tuple(relations))


def situation(
    question: Question = QUESTION,
    *,
    steps: Sequence[Step] = (),
    ranked: Sequence[Evidence] = (),
    skill: Skill = SKILL,
    budget: Budget | None = None,
) -> Situation:
    """Return a situation in the first round."""
    return Situation(question, skill, budget or Budget(deadline_s=60), 1, 12, tuple(steps), tuple(ranked))
