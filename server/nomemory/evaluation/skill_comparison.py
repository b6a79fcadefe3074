"""The same questions with several recall skills: what one finds that another does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nomemory.client.sync import Client
from nomemory.evaluation.answer import Answer
from nomemory.evaluation.asking import Cost, ask
from nomemory.evaluation.methods import Recall
from nomemory.evaluation.question import Question

Answers = Mapping[str, Sequence[Answer]]
"""The answers of each skill, in the order of the questions."""


@dataclass(frozen=True, slots=True)
class Change:
    """A question to which a skill finds other evidence than the first one: ids of labelled messages, sorted."""

    question: Question
    gained: tuple[str, ...]
    lost: tuple[str, ...]


def ask_each(
    client: Client, skills: Sequence[str], questions: Iterable[Question], cost: Cost
) -> dict[str, list[Answer]]:
    """Ask every question with every skill.

    Each skill is asked first in its turn, because who comes first waits for the embedding of the question.

    Raises:
        NoMemoryError: a question was not answered, or there is no such skill.
    """
    answers: dict[str, list[Answer]] = {skill: [] for skill in skills}
    for number, question in enumerate(questions):
        if not number:
            for skill in skills:
                ask(client, Recall(skill), question, cost)
        first = number % len(skills)
        for skill in (*skills[first:], *skills[:first]):
            answers[skill].append(ask(client, Recall(skill), question, cost))
    return answers


def changes(before: Sequence[Answer], after: Sequence[Answer]) -> Iterator[Change]:
    """Return the questions whose evidence changed, in their order. Both answer the same questions."""
    for old, new in zip(before, after, strict=True):
        had, has = _evidence(old), _evidence(new)
        if had != has:
            yield Change(old.question, tuple(sorted(has - had)), tuple(sorted(had - has)))


def _evidence(answer: Answer) -> frozenset[str]:
    return answer.question.evidence.intersection(answer.found.message_ids)
