"""The answer: statements, each with quotes that prove it."""

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

    POSSIBLE: it may, and nothing has read the messages. PENDING: nothing found does, but messages were stored that are
    not searchable yet.
    """

    SUPPORTED = "supported"
    POSSIBLE = "possible"
    CONFLICTING = "conflicting"
    INSUFFICIENT = "insufficient"
    PENDING = "pending"


class Attribution(Enum):
    """Whose words a statement quotes."""

    UNSPECIFIED = "unspecified"
    USER = "user"
    OTHER = "other"
    """Somebody else's: the assistant's, a tool's, another speaker's."""
    QUOTED = "quoted"
    """Passed on by the user: pasted, forwarded or quoted text, code."""


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
    """One line of a memory view.

    Attributes:
        text: what it says.
        citations: prove it; there is at least one.
        superseded_by: the id of the message that says anew what this one says; empty: none was found.
        attribution: whose words it quotes.
    """

    text: str
    citations: tuple[Citation, ...]
    superseded_by: str = ""
    attribution: Attribution = Attribution.UNSPECIFIED


@dataclass(frozen=True, slots=True)
class DraftCitation:
    """A citation that is claimed, not checked yet. Without a quote, the message's best clause is cited."""

    message_id: str
    quote: str = ""


@dataclass(frozen=True, slots=True)
class DraftStatement:
    """A statement that is claimed, not checked yet.

    `computed` are the equations by which a chat model says that it computed figures of the text.
    """

    section: Section
    text: str
    citations: tuple[DraftCitation, ...]
    computed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DraftConflict:
    """Two citations of statements that a chat model says cannot both hold: not checked yet."""

    one: DraftCitation
    other: DraftCitation


@dataclass(frozen=True, slots=True)
class Draft:
    """All that rules or a chat model say: not checked yet.

    Attributes:
        statements: the best first.
        verdict: its own; None: it leaves that to the rules, unless it claims conflicts.
        conflicts: its own.
        composed: whether a chat model worded the statements: then their figures are checked, too.
    """

    statements: tuple[DraftStatement, ...] = ()
    verdict: Verdict | None = None
    conflicts: tuple[DraftConflict, ...] = ()
    composed: bool = False


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two statements that cannot both hold at one time; `possible`: that is a guess."""

    earlier: Statement
    later: Statement
    possible: bool = False


@dataclass(frozen=True, slots=True)
class MemoryView:
    """Verified statements by section. Of what rules quote the most relevant is first, of a model's the newest."""

    preferences: tuple[Statement, ...] = ()
    profile: tuple[Statement, ...] = ()
    constraints: tuple[Statement, ...] = ()

    def statements(self) -> tuple[Statement, ...]:
        """Return all of them."""
        return self.preferences + self.profile + self.constraints


@dataclass(frozen=True, slots=True)
class Synthesis:
    """The verified answer. `notes` say what was removed, and what the verdict rests on; `enough` is as in `Limits`."""

    view: MemoryView
    verdict: Verdict
    conflicts: tuple[Conflict, ...] = ()
    notes: tuple[Note, ...] = ()
    enough: float | None = None
