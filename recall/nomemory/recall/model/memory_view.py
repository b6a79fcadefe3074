"""The answer: statements, each with quotes that prove it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum


class Section(Enum):
    """The sections of a memory view."""

    PREFERENCES = "preferences"
    PROFILE = "profile"
    CONSTRAINTS = "constraints"


class Verdict(Enum):
    """Whether the evidence answers the question.

    PENDING: nothing found does, but messages were stored that are not searchable yet.
    """

    SUPPORTED = "supported"
    CONFLICTING = "conflicting"
    INSUFFICIENT = "insufficient"
    PENDING = "pending"


@dataclass(frozen=True, slots=True)
class Citation:
    """An exact quote. `start` and `end` are code points of the message's content."""

    message_id: str
    quote: str
    start: int
    end: int
    ts: datetime


@dataclass(frozen=True, slots=True)
class Statement:
    """One line of a memory view; it has at least one citation."""

    text: str
    citations: tuple[Citation, ...]


@dataclass(frozen=True, slots=True)
class DraftCitation:
    """A citation that a synthesiser claims, not checked yet. Without a quote, the message's best clause is cited."""

    message_id: str
    quote: str = ""


@dataclass(frozen=True, slots=True)
class DraftStatement:
    """A statement of a synthesiser, not checked yet."""

    section: Section
    text: str
    citations: tuple[DraftCitation, ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two statements that cannot both hold at one time."""

    earlier: Statement
    later: Statement


@dataclass(frozen=True, slots=True)
class MemoryView:
    """Verified statements by section."""

    preferences: tuple[Statement, ...] = ()
    profile: tuple[Statement, ...] = ()
    constraints: tuple[Statement, ...] = ()

    def statements(self) -> tuple[Statement, ...]:
        """Return all of them."""
        return self.preferences + self.profile + self.constraints


@dataclass(frozen=True, slots=True)
class Synthesis:
    """The verified answer. `notes` say what was removed, and what the verdict rests on."""

    view: MemoryView
    verdict: Verdict
    conflicts: tuple[Conflict, ...] = ()
    notes: tuple[str, ...] = ()
