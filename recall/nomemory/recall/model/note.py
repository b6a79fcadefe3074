"""Notes for the caller of a recall."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class NoteKind(Enum):
    """Kinds of notes, with templates for their texts. The API has the same kinds as `NOTE_CODE_…`."""

    SINGLE_CONVERSATION = "the search was limited to the conversation of the request"
    SEMANTIC_INCOMPLETE = "semantic search was incomplete{then}"
    PLANNER_FAILED = "the planner {planner} failed; the planner {fallback} continued the search"
    MODEL_FAILED = "{reason}; showing quotes instead"
    SKILL_IGNORED = "{text}"
    CITATION_NOT_RETRIEVED = "removed {count} citation(s) of messages that were not retrieved"
    QUOTE_NOT_FOUND = "removed {count} citation(s) whose quotes do not occur in the message: {ids}"
    STATEMENT_UNCITED = "removed {count} statement(s) without evidence"
    QUOTED_INSTEAD = (
        "replaced {count} statement(s) with their quotes, because the quotes lack a figure or a name of the statement"
    )
    STATEMENT_LIMIT = "omitted {count} statement(s) above the limit of {limit}"
    MODEL_VERDICT_REJECTED = "the verdict {verdict} of the model was inconsistent; the rules decided the verdict"
    MODEL_VERDICT = "the model decided the verdict"
    NO_STATEMENT = "no statement has a valid citation"
    CONFLICT = "the statements contradict each other"
    SUFFICIENCY_UNKNOWN = "no search estimated whether the quotes answer the question"
    SUFFICIENCY_ESTIMATED = "{answers}: estimated probability {estimate:.2f}, threshold {threshold:.2f}"
    INDEXING_PENDING = "some stored messages are not searchable yet"
    TIME_RANGE_EMPTY = "{count} day(s) or period(s) of the question have no messages"
    CORRECTED = "the best match was corrected; the correction may answer the question"


@dataclass(frozen=True, slots=True)
class Note:
    """A note that explains a result. `count` is the number of objects that the note is about, or 0."""

    kind: NoteKind
    text: str
    count: int = 0


def create_note(kind: NoteKind, *, count: int = 0, **words: object) -> Note:
    """Create a note by filling the text template of its kind."""
    return Note(kind, kind.value.format(count=count, **words), count)
