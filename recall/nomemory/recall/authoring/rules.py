"""The rules of `nomemory skill check`, in one table, and what a finding is. docs/skills.md has the same table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """How serious a finding is: an error must be corrected, a warning may stay."""

    ERROR = "error"
    WARNING = "warning"


class Rule(Enum):
    """The rules that skills have to keep, in the order in which they are told. The first five decide what loads."""

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


def table() -> str:
    """Write the rules as a table in Markdown."""
    rows = (f"| `{rule.id}` | {rule.severity.value} | {rule.says} |\n" for rule in Rule)
    return "| rule | severity | what it says |\n|---|---|---|\n" + "".join(rows)
