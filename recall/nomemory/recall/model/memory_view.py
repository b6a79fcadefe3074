"""The memory view: statements with quotes as evidence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from nomemory.recall.model.note import Note


class Section(Enum):
    """The sections of a memory view."""

    PREFERENCES = "preferences"
    PROFILE = "profile"
    CONSTRAINTS = "constraints"


class Verdict(Enum):
    """Whether the evidence answers the question.

    POSSIBLE: the evidence may answer the question, but no model has read the messages.
    PENDING: the evidence does not answer the question, and some stored messages are not searchable yet.
    """

    SUPPORTED = "supported"
    POSSIBLE = "possible"
    CONFLICTING = "conflicting"
    INSUFFICIENT = "insufficient"
    PENDING = "pending"


class Attribution(Enum):
    """The author of the words in a statement."""

    UNSPECIFIED = "unspecified"
    USER = "user"
    OTHER = "other"
    """Another author: the assistant, a tool, or another person."""
    QUOTED = "quoted"
    """Text that the user pasted, forwarded or quoted, and code."""


@dataclass(frozen=True, slots=True)
class Citation:
    """An exact quote. `start` and `end` are code point offsets in the message content."""

    message_id: str
    quote: str
    start: int
    end: int
    ts: datetime


@dataclass(frozen=True, slots=True)
class Statement:
    """A line of a memory view.

    Attributes:
        citations: quotes that support the statement; at least one.
        superseded_by: id of the message that supersedes this statement; empty if none is known.
        attribution: author of the quoted words.
    """

    text: str
    citations: tuple[Citation, ...]
    superseded_by: str = ""
    attribution: Attribution = Attribution.UNSPECIFIED


@dataclass(frozen=True, slots=True)
class DraftCitation:
    """An unverified citation. Without a quote, the best clause of the message is cited."""

    message_id: str
    quote: str = ""


@dataclass(frozen=True, slots=True)
class DraftStatement:
    """An unverified statement.

    `equations` holds the equations that a chat model reports for computed figures in the text.
    """

    section: Section
    text: str
    citations: tuple[DraftCitation, ...]
    equations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DraftConflict:
    """An unverified conflict between two citations, reported by a chat model."""

    first: DraftCitation
    second: DraftCitation


@dataclass(frozen=True, slots=True)
class Draft:
    """The unverified output of the rules or of a chat model.

    Attributes:
        statements: best first.
        verdict: the model's verdict; None leaves the decision to the rules, unless the draft has conflicts.
        conflicts: conflicts reported by the model.
        is_model_written: whether a chat model worded the statements. Figures in model-written statements are checked
            against the quotes.
    """

    statements: tuple[DraftStatement, ...] = ()
    verdict: Verdict | None = None
    conflicts: tuple[DraftConflict, ...] = ()
    is_model_written: bool = False


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two statements that cannot be true at the same time. `is_possible` marks an uncertain conflict."""

    earlier: Statement
    later: Statement
    is_possible: bool = False


@dataclass(frozen=True, slots=True)
class MemoryView:
    """Verified statements by section. Rules order statements by relevance, models by time, newest first."""

    preferences: tuple[Statement, ...] = ()
    profile: tuple[Statement, ...] = ()
    constraints: tuple[Statement, ...] = ()

    def statements(self) -> tuple[Statement, ...]:
        """Return the statements of all sections."""
        return self.preferences + self.profile + self.constraints


@dataclass(frozen=True, slots=True)
class Synthesis:
    """The verified answer. `notes` explain removed statements and the verdict.

    `sufficiency_threshold` is the same as in `Limits`.
    """

    view: MemoryView
    verdict: Verdict
    conflicts: tuple[Conflict, ...] = ()
    notes: tuple[Note, ...] = ()
    sufficiency_threshold: float | None = None
