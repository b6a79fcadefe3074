"""Entries of a skill that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class UnreadableKind(Enum):
    """What an entry should have been."""

    ENTRY = "entry"
    DURATION = "duration"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An entry that has no effect, or not the one that is written.

    `file` is the path within the skill, `line` is counted from 1, and `why` is a sentence without its full stop. It
    quotes nothing but the names that the form itself knows.
    """

    file: str
    line: int
    why: str
    kind: UnreadableKind = UnreadableKind.ENTRY

    def __str__(self) -> str:
        return f"`{self.file}` line {self.line}: {self.why}"
