"""Rules for skills, which `nomemory skill check` applies and docs/skills.md lists."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """Severity of a rule violation: an error, which must be fixed, or a warning."""

    ERROR = "error"
    WARNING = "warning"


class Rule(Enum):
    """Rules for skills, in display order. A skill that violates one of the first five rules does not load."""

    FOLDER = "folder", "A skill is a folder with a `SKILL.md` and at most 16 other files. Links stay within the folder."
    TEXT = "text", "Each file is a regular UTF-8 file of at most 64 KB."
    FRONTMATTER = "frontmatter", "`SKILL.md` starts with frontmatter that contains only strings. Text follows it."
    NAME = "name", "`name` equals the name of the folder: 1 to 64 characters of `a-z`, `0-9` and `-`."
    DESCRIPTION = "description", "`description` has 1 to 1,024 characters."
    FRONTMATTER_KEY = (
        "frontmatter-key",
        "The frontmatter contains only `name` and `description`. Other keys are ignored.",
        Severity.WARNING,
    )
    TOOL = "tool", "Examples call `messages_list`, `lexical_search`, `semantic_search` and `neighbors` only."
    CALL = (
        "call",
        (
            "A call example is one JSON object, in a block or line of its own, with `tool` and valid `args`. "
            "Filters are explicit: `messages_list` has `role`, and `since` or `until`; a search has `filter.role`, and "
            "`filter.time_range` with `since` or `until`."
        ),
    )
    USER_ID = "user-id", "No tool argument and no JSON field names a user."
    INVALID_ENTRY = "unreadable", "Every entry of Defaults, Lexicon and Query Templates is valid."
    SECTIONS = (
        "sections",
        "A skill with a Scenario section also has all other sections of the format.",
    )
    EVIDENCE = (
        "evidence",
        (
            "The Evidence Contract lists the fields `message_id`, `ts`, `role` and `content`, and the coverage "
            "`time_range` and `role`."
        ),
    )
    LENGTH = (
        "length",
        "The text for a chat model has at most 4,000 characters. The rest is ignored.",
        Severity.WARNING,
    )

    def __init__(self, name: str, requirement: str, severity: Severity = Severity.ERROR) -> None:
        self.id = name
        self.requirement = requirement
        self.severity = severity


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation of a rule for skills, with its position in the skill.

    Attributes:
        file: path within the skill folder, such as `SKILL.md`.
        line: line number, starting at 1; 0 if the problem concerns the whole file or folder.
    """

    file: str
    line: int
    rule: Rule
    problem: str


def render_rule_table() -> str:
    """Return the rules for skills as a Markdown table."""
    rows = (f"| `{rule.id}` | {rule.severity.value} | {rule.requirement} |\n" for rule in Rule)
    return "| rule | severity | requirement |\n|---|---|---|\n" + "".join(rows)
