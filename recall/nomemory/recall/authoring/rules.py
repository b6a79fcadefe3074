"""The rules of `nomemory skill check`, and their findings. docs/skills.md contains the same table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """Severity of a finding. Errors must be fixed, warnings are optional."""

    ERROR = "error"
    WARNING = "warning"


class Rule(Enum):
    """The rules for skills, in display order. The first five decide whether a skill loads."""

    FOLDER = "folder", "A skill is a folder with a `SKILL.md`, at most 16 texts beside it, and no link out."
    TEXT = "text", "Every text is a plain file in UTF-8 of at most 64 KB."
    FRONTMATTER = "frontmatter", "`SKILL.md` begins with frontmatter of plain strings, and says something after it."
    NAME = "name", "`name` is the folder's name: 1 to 64 characters of `a-z`, `0-9` and `-`."
    DESCRIPTION = "description", "`description` has 1 to 1,024 characters."
    FRONTMATTER_KEY = (
        "frontmatter-key",
        "The frontmatter has `name` and `description` only; the rest is ignored.",
        Severity.WARNING,
    )
    TOOL = "tool", "Examples call `messages_list`, `lexical_search`, `semantic_search` and `neighbors` only."
    CALL = (
        "call",
        (
            "A call example is one JSON object, alone in its block or on its line, with `tool` and `args` for it. "
            "Filters are explicit: a list has `role` and `since` or `until`; a search has `filter.role` and "
            "`filter.time_range` with `since` or `until`."
        ),
    )
    USER_ID = "user-id", "No user is named in the arguments of a tool, or as a field of JSON."
    UNREADABLE = "unreadable", "Every entry of Defaults, Lexicon and Query Templates can be read."
    SECTIONS = (
        "sections",
        "A skill with a Scenario has Defaults, Lexicon, Query Templates, Playbook and Evidence Contract, too.",
    )
    EVIDENCE = (
        "evidence",
        (
            "An Evidence Contract has the fields `message_id`, `ts`, `role`, `content` and the coverage `time_range`, "
            "`role`."
        ),
    )
    LENGTH = (
        "length",
        "A chat model is shown the beginning of what does not speak of searching: the rest has no effect on it.",
        Severity.WARNING,
    )

    def __init__(self, name: str, says: str, severity: Severity = Severity.ERROR) -> None:
        self.id = name
        self.says = says
        self.severity = severity


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation of a rule.

    Attributes:
        file: path within the skill folder, such as `SKILL.md`.
        line: line number, starting at 1; 0 for the whole file or folder.
        rule: the violated rule.
        sentence: description of the problem.
    """

    file: str
    line: int
    rule: Rule
    sentence: str


def table() -> str:
    """Return the rules as a Markdown table."""
    rows = (f"| `{rule.id}` | {rule.severity.value} | {rule.says} |\n" for rule in Rule)
    return "| rule | severity | what it says |\n|---|---|---|\n" + "".join(rows)
