"""Errors of a skill."""

from __future__ import annotations

from enum import Enum
from typing import Final

from nomemory.recall.errors import RecallError

SKILL_FILE: Final = "SKILL.md"


class SkillFault(Enum):
    """The part of a skill that keeps it from loading."""

    FOLDER = "folder"
    TEXT = "text"
    FRONTMATTER = "frontmatter"
    NAME = "name"
    DESCRIPTION = "description"


class SkillNotFoundError(RecallError):
    """There is no skill of that name. The text is for callers."""


class SkillInvalidError(RecallError):
    """A skill that does not load. The text says why, for callers.

    Attributes:
        code: what part of it is wrong.
        why: the reason alone, without the skill's name.
        file: the file that is wrong, by its path within the skill.
    """

    def __init__(self, why: str, code: SkillFault, file: str = SKILL_FILE, skill: str = "") -> None:
        super().__init__(f"the skill `{skill}` does not load: {why}" if skill else why)
        self.why = why
        self.code = code
        self.file = file

    def of(self, skill: str) -> SkillInvalidError:
        """Return this error with the name of the skill in its text."""
        return SkillInvalidError(self.why, self.code, self.file, skill)
