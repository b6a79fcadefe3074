"""Notes for the caller of a recall."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class NoteKind(Enum):
    """The kinds of notes with their text templates. `NOTE_CODE_…` in the API has the same kinds."""

    SINGLE_CONVERSATION = "only the conversation that the request names was looked at"
    SEMANTIC_INCOMPLETE = "not everything was searched by meaning{then}"
    PLANNER_FAILED = "the planner {planner} gave no answer: {fallback} went on"
    MODEL_FAILED = "the chat model {failed}: rules composed the view"
    SKILL_IGNORED = "{said}"
    CITATION_NOT_RETRIEVED = "struck {count} citation(s) of messages that were not retrieved"
    QUOTE_NOT_FOUND = "struck {count} citation(s) whose words do not stand in the message: {ids}"
    STATEMENT_UNCITED = "dropped {count} statement(s) without evidence"
    QUOTED_INSTEAD = "replaced {count} statement(s) by their quotes, in which a figure or a name does not stand"
    STATEMENT_LIMIT = "left out {count} statement(s) over the limit of {limit}"
    MODEL_VERDICT_REJECTED = "the verdict {verdict} did not fit: the rules decided"
    MODEL_VERDICT = "the verdict is the model's"
    NO_STATEMENT = "no statement could be cited"
    CONFLICT = "what was said contradicts itself"
    SUFFICIENCY_UNKNOWN = "how likely it is that the quotes answer was not asked"
    SUFFICIENCY_ESTIMATED = "{answers}: an estimate of {estimate:.2f}, where {enough:.2f} is enough"
    INDEXING_PENDING = "messages were stored that are not searchable yet"
    TIME_RANGE_EMPTY = "there are no messages in {count} day(s) or period(s) that the question names"
    CORRECTED = "what comes nearest was corrected: the correction may answer"


@dataclass(frozen=True, slots=True)
class Note:
    """A note with its text. `count` is the number of affected objects, or 0."""

    kind: NoteKind
    text: str
    count: int = 0


def note(kind: NoteKind, *, count: int = 0, **words: object) -> Note:
    """Create a note from a kind's text template."""
    return Note(kind, kind.value.format(count=count, **words), count)
