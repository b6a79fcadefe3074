"""Questions about somebody else: what one user is asked, asked of another who never said anything of the kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nomemory.evaluation.question import Question


def off_topic(questions: Sequence[Question]) -> list[Question]:
    """Ask each labelled question of the next user who is asked in its language; nothing answers it there.

    Questions without a verdict, and those of a language with one user only, are left out. Time stands where it stood
    for the user who is asked: at the latest of their own questions.
    """
    labelled = [one for one in questions if one.verdict]
    latest = {one.user_id: one.now for one in labelled}
    asked = [(one, _next(one, labelled)) for one in labelled]
    return [
        replace(one, user_id=other, now=latest[other], evidence=frozenset(), needed=(), old=frozenset())
        for one, other in asked
        if other is not None
    ]


def _next(question: Question, questions: Sequence[Question]) -> str | None:
    users = sorted({one.user_id for one in questions if one.language == question.language})
    if len(users) == 1:
        return None
    return users[(users.index(question.user_id) + 1) % len(users)]
