"""A text of a skill as the rules look at it: its lines, and the fenced blocks among them.

The rules of `nomemory skill check`, in one table, and what a finding is. docs/skills.md has the same table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from markdown_it.token import Token

from nomemory.recall.skills.steering.outline import block_tokens

_LANGUAGE: Final = re.compile(r"[\w+-]*")
_JSON: Final = frozenset({"json", "jsonc", "json5", "jsonl", "ndjson"})
_SPAN: Final = re.compile(r"(?<!`)(`{1,8})(?!`)(.+?)(?<!`)\1(?!`)")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a text; `number` counts from 1. `in_fence` tells that it stands in a fenced block, or fences one."""

    number: int
    text: str
    in_fence: bool


@dataclass(frozen=True, slots=True)
class Block:
    """What stands between two fences. `first` is the number of its first line, `language` what the fence says."""

    first: int
    language: str
    text: str

    @property
    def may_be_json(self) -> bool:
        """Return whether it says that it is JSON, or says nothing and looks like it."""
        return self.language in _JSON or (not self.language and self.text.lstrip()[:1] in ("{", "["))


@dataclass(frozen=True, slots=True)
class Document:
    """A text of a skill. `file` is its path within the skill's folder."""

    file: str
    lines: tuple[Line, ...]
    blocks: tuple[Block, ...]


def read_document(file: str, text: str) -> Document:
    """Part a text into lines and blocks. A block that is not closed goes on to the end."""
    fences = [
        (range(*token.map), token)
        for token in block_tokens(text, in_comments=True)
        if token.type == "fence" and token.map is not None
    ]
    fenced = {number for place, _ in fences for number in place}
    lines = enumerate(text.replace("\r\n", "\n").split("\n"))
    return Document(
        file,
        tuple(Line(number + 1, line, in_fence=number in fenced) for number, line in lines),
        tuple(_block(place, fence) for place, fence in fences),
    )


def _block(place: range, fence: Token) -> Block:
    return Block(place.start + 2, _language(fence.info), fence.content.removesuffix("\n"))


def _language(info: str) -> str:
    named = _LANGUAGE.match(info.strip())
    return named[0].lower() if named else ""


def code_spans(text: str) -> Iterator[re.Match[str]]:
    """Find what stands between backticks in a line; group 2 of each match is the code."""
    return _SPAN.finditer(text)


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


_ERROR, _WARNING = Severity.ERROR, Severity.WARNING
FOLDER: Final = Rule(
    "folder", _ERROR, "A skill is a folder with a `SKILL.md`, at most 16 texts beside it, and no link out."
)
TEXT: Final = Rule("text", _ERROR, "Every text is a plain file in UTF-8 of at most 64 KB.")
FRONTMATTER: Final = Rule(
    "frontmatter", _ERROR, "`SKILL.md` begins with frontmatter of plain strings, and says something after it."
)
NAME: Final = Rule("name", _ERROR, "`name` is the folder's name: 1 to 64 characters of `a-z`, `0-9` and `-`.")
DESCRIPTION: Final = Rule("description", _ERROR, "`description` has 1 to 1,024 characters.")
FRONTMATTER_KEY: Final = Rule(
    "frontmatter-key", _WARNING, "The frontmatter has `name` and `description` only; the rest is ignored."
)
TOOL: Final = Rule(
    "tool", _ERROR, "Examples call `messages_list`, `lexical_search`, `semantic_search` and `neighbors` only."
)
CALL: Final = Rule(
    "call", _ERROR, "A call example is exactly one JSON object, on lines of its own, with `tool` and `args`."
)
FILTERS: Final = Rule(
    "filters",
    _ERROR,
    "Filters are explicit: a list has `role` and `since` or `until`; a search has `filter.role` and "
    "`filter.time_range` with `since` or `until`.",
)
ARGUMENTS: Final = Rule(
    "arguments", _ERROR, "The arguments of a call example are those of its tool, and within their limits."
)
USER_ID: Final = Rule(
    "user-id", _ERROR, "No user is named in an argument, in a signature or as a field of the evidence."
)
DURATION: Final = Rule("duration", _ERROR, "A duration is written as in ISO 8601, such as `P30D`; `all` is any time.")
UNREADABLE: Final = Rule("unreadable", _ERROR, "Every entry of Defaults, Lexicon and Query Templates can be read.")
SECTIONS: Final = Rule(
    "sections",
    _ERROR,
    "A skill with a Scenario has Defaults, Lexicon, Query Templates, Playbook and Evidence Contract, too.",
)
EVIDENCE: Final = Rule(
    "evidence",
    _ERROR,
    "An Evidence Contract has the fields `message_id`, `ts`, `role`, `content` and the coverage `time_range`, `role`.",
)
HOST_LIMIT: Final = Rule(
    "host-limit",
    _WARNING,
    "Budgets, deadlines, page sizes and permitted tools are the host's: a skill cannot set them.",
)
LENGTH: Final = Rule(
    "length",
    _WARNING,
    "A chat model is shown the beginning of what does not speak of searching: the rest has no effect on it.",
)
RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        rule.id: rule
        for rule in (
            FOLDER,
            TEXT,
            FRONTMATTER,
            NAME,
            DESCRIPTION,
            FRONTMATTER_KEY,
            TOOL,
            CALL,
            FILTERS,
            ARGUMENTS,
            USER_ID,
            DURATION,
            UNREADABLE,
            SECTIONS,
            EVIDENCE,
            HOST_LIMIT,
            LENGTH,
        )
    }
)
"""By id, in the order in which they are told."""


def table() -> str:
    """Write the rules as a table in Markdown."""
    rows = (f"| `{rule.id}` | {rule.severity.value} | {rule.says} |\n" for rule in RULES.values())
    return "| rule | severity | what it says |\n|---|---|---|\n" + "".join(rows)
