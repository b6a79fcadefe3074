"""What a check of a skill finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """How serious a finding is: an error must be corrected, a warning may stay."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that skills have to keep.

    Attributes:
        id: its name, as findings give it.
        severity: how much it matters.
        says: the rule, in a sentence.
    """

    id: str
    severity: Severity
    says: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A place where a skill does not keep a rule.

    Attributes:
        file: the path within the skill's folder, such as `SKILL.md`.
        line: counted from 1; 0 means the file, or the folder, as a whole.
        rule: the rule.
        sentence: what is wrong there.
    """

    file: str
    line: int
    rule: Rule
    sentence: str

    @property
    def is_error(self) -> bool:
        """Return whether it is an error."""
        return self.rule.severity is Severity.ERROR
