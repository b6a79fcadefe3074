"""Labeled questions, and the reader of the JSON Lines files of a labeled set.

The reader validates every line; its error message lists the first twenty errors.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from nomemory.importing.fields import JsonFields
from nomemory.importing.files import ImportFile
from nomemory.importing.json_stream import read_json_values
from nomemory.importing.jsonl import JsonLinesImporter
from nomemory.importing.record import AcceptedMessage, ImportDefaults, Record, RejectedRecord

ADVERSARIAL: Final = "adversarial"
"""Category of unanswerable questions that resemble answerable ones."""

CURRENT: Final = "current"
"""Category of questions about a current value that has changed."""

_CONTRADICTORY: Final = "CONFLICTING"
_SHOWN_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Question:
    """A labeled question about the messages of a user.

    Attributes:
        question_id: id of the question in the results.
        user_id: user whose messages are searched.
        evidence: ids of the messages that prove the answer; empty if the question is unanswerable.
        now: time of the question; messages at or after it are ignored. None: no limit.
        needed_facts: for each required fact, the ids of the messages that prove it; any one of them is enough. Empty:
            not labeled.
        outdated_evidence: ids of the messages that state an outdated value.
        verdict: expected recall verdict without the enum prefix; empty: not labeled.
        language: language of the question, such as `en`; empty: not labeled.
        conversations: conversation id of each message of the user, by message id.
    """

    question_id: str
    user_id: str
    text: str
    category: str
    evidence: frozenset[str]
    now: datetime | None
    needed_facts: tuple[frozenset[str], ...] = ()
    outdated_evidence: frozenset[str] = frozenset()
    verdict: str = ""
    language: str = ""
    conversations: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_answerable(self) -> bool:
        """Whether the user's messages answer the question."""
        return bool(self.evidence) and self.category != ADVERSARIAL

    @property
    def is_contradictory(self) -> bool:
        """Whether the evidence contradicts itself."""
        return self.verdict == _CONTRADICTORY


class LabeledDataError(Exception):
    """Raised for an invalid labeled set; the text lists the first twenty errors with file and line."""

    def __init__(self, errors: list[str]) -> None:
        more = [f"… and {len(errors) - _SHOWN_MAX:,} more"] if len(errors) > _SHOWN_MAX else []
        super().__init__("\n".join([*errors[:_SHOWN_MAX], *more]))


def read_messages(path: Path) -> list[AcceptedMessage]:
    """Read a messages file in the format of `nomemory import`.

    Raises:
        LabeledDataError: a line is not a valid message.
        OSError: the file cannot be read.
    """
    form = JsonLinesImporter(ImportDefaults())
    accepted, errors = [], []
    for record in read_json_values(ImportFile(str(path))):
        for parsed in [record] if isinstance(record, RejectedRecord) else form.parse(record):
            if isinstance(parsed, AcceptedMessage):
                accepted.append(parsed)
            elif isinstance(parsed, RejectedRecord):
                errors.append(format_line_error(path, parsed))
    if errors:
        raise LabeledDataError(errors)
    return accepted


def read_questions(path: Path, message_keys: frozenset[tuple[str, str]] | None = None) -> list[Question]:
    """Read a questions file, which has one JSON object per line.

    The fields are named as in `Question`, except `question` for `text`, `evidence_any` for `needed_facts`, and `old`
    for `outdated_evidence`. Other fields are ignored. `message_keys` contains the user id and the message id of each
    message that evidence may name; None: any message.

    Raises:
        LabeledDataError: a line is not a valid question, repeats an id or names an unknown message, or the file has no
            questions.
        OSError: the file cannot be read.
    """
    questions: dict[str, Question] = {}
    errors = []
    for record in read_json_values(ImportFile(str(path))):
        question = _parse_question(record)
        if isinstance(question, Question):
            question = _check_question(record, question, questions.keys(), message_keys)
        if isinstance(question, RejectedRecord):
            errors.append(format_line_error(path, question))
        else:
            questions[question.question_id] = question
    if not questions and not errors:
        errors.append(f"{path}: no questions")
    if errors:
        raise LabeledDataError(errors)
    return list(questions.values())


def format_line_error(path: Path, rejected: AcceptedMessage | RejectedRecord, reasons: tuple[str, ...] = ()) -> str:
    """Format an error of a line: `path:line: reasons`."""
    reasons = reasons or (rejected.reasons if isinstance(rejected, RejectedRecord) else ())
    return f"{path}:{rejected.location.number}: {'; '.join(reasons)}"


def _parse_question(record: Record | RejectedRecord) -> Question | RejectedRecord:
    if isinstance(record, RejectedRecord):
        return record
    if not isinstance(record.value, dict):
        return RejectedRecord(record.location, record.original, ("is not a JSON object",))
    fields = JsonFields(record.value)
    question = Question(
        question_id=fields.get_text("question_id", required=True),
        user_id=fields.get_text("user_id", required=True),
        text=fields.get_text("question", required=True),
        category=fields.get_text("category", required=True),
        evidence=_parse_ids("evidence", record.value.get("evidence"), fields.reasons),
        now=fields.get_time("now"),
        needed_facts=_parse_needed_facts(record.value.get("evidence_any"), fields.reasons),
        outdated_evidence=_parse_ids("old", record.value.get("old"), fields.reasons),
        verdict=fields.get_text("verdict"),
        language=fields.get_text("language"),
    )
    return RejectedRecord(record.location, record.original, tuple(fields.reasons)) if fields.reasons else question


def _parse_ids(name: str, value: object, reasons: list[str]) -> frozenset[str]:
    if value is None:
        return frozenset()
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        reasons.append(f"{name}: must be a list of message ids")
        return frozenset()
    return frozenset(value)


def _parse_needed_facts(value: object, reasons: list[str]) -> tuple[frozenset[str], ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        reasons.append("evidence_any: must be a list of lists of message ids")
        return ()
    return tuple(_parse_ids(f"evidence_any[{index}]", item, reasons) for index, item in enumerate(value))


def _check_question(
    record: Record | RejectedRecord,
    question: Question,
    seen_ids: Collection[str],
    message_keys: frozenset[tuple[str, str]] | None,
) -> Question | RejectedRecord:
    reasons = []
    if question.question_id in seen_ids:
        reasons.append("question_id: duplicate in the file")
    named = question.evidence.union(question.outdated_evidence, *question.needed_facts)
    missing = [] if message_keys is None else [item for item in named if (question.user_id, item) not in message_keys]
    if missing:
        reasons.append(f"evidence: this user has no message {', '.join(sorted(missing))}")
    return RejectedRecord(record.location, record.original, tuple(reasons)) if reasons else question
