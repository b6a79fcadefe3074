"""Questions whose evidence somebody has labelled, and the files of a labelled set.

These are read line by line, and everything in them that is wrong is named.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from nomemory.importing.fields import Fields
from nomemory.importing.files import Source
from nomemory.importing.json_stream import read_values
from nomemory.importing.jsonl import MessageLines
from nomemory.importing.record import Accepted, ImportDefaults, Record, Rejected

ADVERSARIAL: Final = "adversarial"
"""The category of questions that sound as if the log answered them."""

CURRENT: Final = "current"
"""The category of questions for what holds now."""

_CONTRADICTORY: Final = "CONFLICTING"
_SHOWN_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Question:
    """A question about one user.

    Attributes:
        question_id: what results call it.
        user_id: whose messages answer it.
        text: the question.
        category: a word of the set's own.
        evidence: ids of the messages that prove the answer; empty where nothing does.
        now: when it is asked; what was said then or later is not looked at. None: everything is.
        needed: for each thing that an answer has to know, the messages any one of which proves it; empty: not labelled.
        old: messages that state a value which no longer holds.
        verdict: what a recall should say, in the contract's words without their prefix; empty: not labelled.
        language: the question's, such as `en`; empty: not labelled.
        conversations: which conversation each of the user's messages belongs to, by message id, so far as it has one.
    """

    question_id: str
    user_id: str
    text: str
    category: str
    evidence: frozenset[str]
    now: datetime | None
    needed: tuple[frozenset[str], ...] = ()
    old: frozenset[str] = frozenset()
    verdict: str = ""
    language: str = ""
    conversations: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_answerable(self) -> bool:
        """Whether the log answers it."""
        return bool(self.evidence) and self.category != ADVERSARIAL

    @property
    def is_contradictory(self) -> bool:
        """Whether what was said contradicts itself."""
        return self.verdict == _CONTRADICTORY


class LabelledDataError(Exception):
    """A set that cannot be used. The text names file and line of each fault, the first twenty of them."""

    def __init__(self, faults: list[str]) -> None:
        more = [f"… and {len(faults) - _SHOWN_MAX:,} more"] if len(faults) > _SHOWN_MAX else []
        super().__init__("\n".join([*faults[:_SHOWN_MAX], *more]))


def read_messages(path: Path) -> list[Accepted]:
    """Read a file of messages, in the form that `nomemory import` takes.

    Raises:
        LabelledDataError: lines that are no messages.
        OSError: the file cannot be read.
    """
    form = MessageLines(ImportDefaults())
    accepted, faults = [], []
    for record in read_values(Source(str(path))):
        for parsed in [record] if isinstance(record, Rejected) else form.parse(record):
            if isinstance(parsed, Accepted):
                accepted.append(parsed)
            elif isinstance(parsed, Rejected):
                faults.append(fault(path, parsed))
    if faults:
        raise LabelledDataError(faults)
    return accepted


def read_questions(path: Path, known: frozenset[tuple[str, str]] | None = None) -> list[Question]:
    """Read a file of questions: objects with the fields of `Question`, its text as `question`; others are left alone.

    Args:
        path: the file.
        known: user and id of every message that evidence may name; None: any.

    Raises:
        LabelledDataError: lines that are no questions, that repeat an id, or whose evidence is not known; or no line.
        OSError: the file cannot be read.
    """
    questions: dict[str, Question] = {}
    faults = []
    for record in read_values(Source(str(path))):
        question = _question(record)
        if isinstance(question, Question):
            question = _checked(record, question, questions.keys(), known)
        if isinstance(question, Rejected):
            faults.append(fault(path, question))
        else:
            questions[question.question_id] = question
    if not questions and not faults:
        faults.append(f"{path} has no questions")
    if faults:
        raise LabelledDataError(faults)
    return list(questions.values())


def fault(path: Path, refused: Accepted | Rejected, reasons: tuple[str, ...] = ()) -> str:
    """Write what is wrong with a line, for people."""
    reasons = reasons or (refused.reasons if isinstance(refused, Rejected) else ())
    return f"{path}:{refused.location.number}: {'; '.join(reasons)}"


def _question(record: Record | Rejected) -> Question | Rejected:
    if isinstance(record, Rejected):
        return record
    if not isinstance(record.value, dict):
        return Rejected(record.location, record.original, ("is not a JSON object",))
    fields = Fields(record.value)
    question = Question(
        question_id=fields.text("question_id", required=True),
        user_id=fields.text("user_id", required=True),
        text=fields.text("question", required=True),
        category=fields.text("category", required=True),
        evidence=_ids("evidence", record.value.get("evidence"), fields.reasons),
        now=fields.time("now"),
        needed=_needed(record.value.get("evidence_any"), fields.reasons),
        old=_ids("old", record.value.get("old"), fields.reasons),
        verdict=fields.text("verdict"),
        language=fields.text("language"),
    )
    return Rejected(record.location, record.original, tuple(fields.reasons)) if fields.reasons else question


def _ids(name: str, value: object, reasons: list[str]) -> frozenset[str]:
    if value is None:
        return frozenset()
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        reasons.append(f"{name}: must be a list of message ids")
        return frozenset()
    return frozenset(value)


def _needed(value: object, reasons: list[str]) -> tuple[frozenset[str], ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        reasons.append("evidence_any: must be a list of lists of message ids")
        return ()
    return tuple(_ids(f"evidence_any[{place}]", item, reasons) for place, item in enumerate(value))


def _checked(
    record: Record | Rejected,
    question: Question,
    taken: Collection[str],
    known: frozenset[tuple[str, str]] | None,
) -> Question | Rejected:
    reasons = []
    if question.question_id in taken:
        reasons.append("question_id: stands twice in the file")
    named = question.evidence.union(question.old, *question.needed)
    missing = [] if known is None else [item for item in named if (question.user_id, item) not in known]
    if missing:
        reasons.append(f"evidence: this user has no message {', '.join(sorted(missing))}")
    return Rejected(record.location, record.original, tuple(reasons)) if reasons else question
