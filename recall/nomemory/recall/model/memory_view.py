"""The memory view, which is the answer of a recall: statements with quotes as evidence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from nomemory.recall.model.note import Note


class Section(Enum):
    """Section of a memory view."""

    PREFERENCES = "preferences"
    PROFILE = "profile"
    CONSTRAINTS = "constraints"


class Verdict(Enum):
    """Verdict on whether the evidence answers the question.

    POSSIBLE: the evidence may answer the question. Only rules decide on this verdict, never a chat model.
    PENDING: the evidence does not answer the question, and some stored messages are not searchable yet.
    """

    SUPPORTED = "supported"
    POSSIBLE = "possible"
    CONFLICTING = "conflicting"
    INSUFFICIENT = "insufficient"
    PENDING = "pending"


class Attribution(Enum):
    """Author of the text that a statement quotes."""

    UNSPECIFIED = "unspecified"
    USER = "user"
    OTHER = "other"
    """Another author: the assistant, a tool, or another person."""
    QUOTED = "quoted"
    """Text that the user pasted, forwarded or quoted, and code."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A verbatim quote of a message. `start` and `end` are code point offsets in the message content."""

    message_id: str
    quote: str
    start: int
    end: int
    ts: datetime


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a memory view.

    Attributes:
        citations: at least one quote that supports the statement.
        superseded_by: id of the message that supersedes this statement, or empty.
    """

    text: str
    citations: tuple[Citation, ...]
    superseded_by: str = ""
    attribution: Attribution = Attribution.UNSPECIFIED


@dataclass(frozen=True, slots=True)
class DraftCitation:
    """A citation that is not verified yet. If `quote` is empty, verification chooses a clause of the message."""

    message_id: str
    quote: str = ""


@dataclass(frozen=True, slots=True)
class DraftStatement:
    """A statement that is not verified yet. `equations` show how a chat model computed figures in the text."""

    section: Section
    text: str
    citations: tuple[DraftCitation, ...]
    equations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DraftConflict:
    """An unverified conflict between two citations, as reported by a chat model."""

    first: DraftCitation
    second: DraftCitation


@dataclass(frozen=True, slots=True)
class DraftView:
    """A memory view, written by rules or by a chat model, that is not verified yet.

    Attributes:
        statements: the statements, best first.
        verdict: the chat model's verdict. If the verdict is None and the draft has no conflicts, rules decide the
            verdict.
        conflicts: the conflicts that the chat model reported.
        is_model_written: whether a chat model wrote the statements, so that their figures must be checked against the
            quotes.
    """

    statements: tuple[DraftStatement, ...] = ()
    verdict: Verdict | None = None
    conflicts: tuple[DraftConflict, ...] = ()
    is_model_written: bool = False


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two statements that contradict each other. `is_possible` means that the contradiction is not certain."""

    earlier: Statement
    later: Statement
    is_possible: bool = False


@dataclass(frozen=True, slots=True)
class MemoryView:
    """Verified statements by section.

    If a chat model decided the verdict, statements are sorted by time, newest first; otherwise by relevance.
    """

    preferences: tuple[Statement, ...] = ()
    profile: tuple[Statement, ...] = ()
    constraints: tuple[Statement, ...] = ()

    def list_statements(self) -> tuple[Statement, ...]:
        """Return the statements of all sections of the view."""
        return self.preferences + self.profile + self.constraints


@dataclass(frozen=True, slots=True)
class VerifiedView:
    """A verified memory view with its verdict. `notes` explain the verdict and removed statements."""

    view: MemoryView
    verdict: Verdict
    conflicts: tuple[Conflict, ...] = ()
    notes: tuple[Note, ...] = ()
    sufficiency_threshold: float | None = None
