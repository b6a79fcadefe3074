"""A skill's template for one intent: where to begin, what to ask as well, whether to look around."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from nomemory.recall.intent.intent import Hypothesis
from nomemory.recall.skills.steering.outline import Entry, Part, Section, Unreadable, heading_names, named, word
from nomemory.recall.tools.definitions import NEIGHBORS, TOOLS

_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_QUERY_CHARS_MAX: Final = 1_000
REWRITES_MAX: Final = 4
REWRITE_CHARS_MAX: Final = 200
FIRST: Final = "first"
REWRITE: Final = "rewrite"
NEIGHBORS_KEY: Final = "neighbors"
_COLUMNS: Final = (FIRST, REWRITE, NEIGHBORS_KEY)
_KEYS: Final = {
    name: key
    for key, names in {
        FIRST: ("first", "first_tool", "首选", "首选工具"),
        REWRITE: ("rewrite", "rewrites", "改写"),
        NEIGHBORS_KEY: ("neighbors", "neighbours", "邻近"),
    }.items()
    for name in names
}
_YES_OR_NO: Final = {
    **dict.fromkeys(("true", "yes", "on", "是", "要", "开"), True),
    **dict.fromkeys(("false", "no", "off", "否", "不", "不要", "关"), False),
}
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


class TemplateIntent(Enum):
    """The intents that a template may be for."""

    PREFERENCES = "preferences"
    PROFILE = "profile"
    CONSTRAINTS = "constraints"
    SCHEDULE = "schedule"


INTENT_OF: Final = {
    Hypothesis.PREFERENCE: TemplateIntent.PREFERENCES,
    Hypothesis.FORMAT: TemplateIntent.PREFERENCES,
    Hypothesis.PROFILE: TemplateIntent.PROFILE,
    Hypothesis.PROJECT: TemplateIntent.PROFILE,
    Hypothesis.CONSTRAINT: TemplateIntent.CONSTRAINTS,
    Hypothesis.SCHEDULE: TemplateIntent.SCHEDULE,
}
"""What a question looks for, as the sections of a memory view sort it. A promise is none of them."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A query to ask as well; `{question}` in it is the sentence that asks, `{words}` its content words."""

    text: str
    line: int

    def query(self, question: str, words: str) -> str:
        """Return the query with the placeholders filled in."""
        given = {"question": question, "words": words}
        return " ".join(_PLACEHOLDER.sub(lambda match: given[match[1]], self.text).split())[:_QUERY_CHARS_MAX]


@dataclass(frozen=True, slots=True)
class Template:
    """How to search where a question has one intent; where its section begins in the skill.

    `first` is the tool to begin with, None: as without a template. `neighbors` asks for what stands around the best
    hits; False and None leave it to the host.
    """

    intent: TemplateIntent
    first: str | None = None
    rewrites: tuple[Rewrite, ...] = ()
    neighbors: bool | None = None
    file: str = ""
    line: int = 0


def unknown_placeholders(text: str) -> bool:
    """Return whether a rewrite has a placeholder that nothing fills in."""
    return any(name not in {"question", "words"} for name in _PLACEHOLDER.findall(text))


_INTENTS: Final = {
    name: intent
    for intent, names in {
        TemplateIntent.PREFERENCES: ("preferences", "preference", "偏好"),
        TemplateIntent.PROFILE: ("profile", "背景"),
        TemplateIntent.CONSTRAINTS: ("constraints", "constraint", "约束"),
        TemplateIntent.SCHEDULE: ("schedule", "日程"),
    }.items()
    for name in names
}

_Taken = tuple[Template, str]
"""A template with an entry taken in, and what could not be read of it; empty: nothing."""


class TemplateReader:
    """Reads the sections of query templates. An intent may stand in several; the first tool that is given counts."""

    def __init__(self) -> None:
        self.unreadable: list[Unreadable] = []
        self._templates: dict[TemplateIntent, Template] = {}
        self._takers: dict[str, Callable[[Template, Entry], _Taken]] = {
            FIRST: _with_first,
            REWRITE: _with_rewrite,
            NEIGHBORS_KEY: _with_neighbors,
        }

    def read(self, file: str, section: Section) -> None:
        """Read the entries of a section."""
        for part, is_first in zip(section.parts, (True, *[False] * len(section.parts)), strict=False):
            intent = _intent(heading_names(part.title))
            if intent:
                self._read_part(file, part, intent)
            elif is_first:
                self._read_rows(file, part)
            elif part.entries:
                self._report(file, part.line, f"a template is for one of {_all_intents()}")

    def templates(self) -> tuple[Template, ...]:
        """Return everything read so far."""
        return tuple(self._templates.values())

    def _read_part(self, file: str, part: Part, intent: TemplateIntent) -> None:
        self._templates.setdefault(intent, Template(intent, file=file, line=part.line))
        for entry in part.entries:
            key = _KEYS.get(named(entry.key))
            if key:
                self._take(intent, key, entry)
            elif _NAME.fullmatch(entry.key) and entry.value:
                self._report(
                    file, entry.line, f"a template has nothing but `{FIRST}`, `{REWRITE}` and `{NEIGHBORS_KEY}`"
                )

    def _read_rows(self, file: str, part: Part) -> None:
        """Read what stands under the section's own heading: intent, first tool, rewrite, neighbours."""
        for entry in part.entries:
            intent = _intent(heading_names(entry.key))
            if intent:
                self._templates.setdefault(intent, Template(intent, file=file, line=entry.line))
                for key, cell in zip(_COLUMNS, entry.cells[1:], strict=False):
                    if cell:
                        self._take(intent, key, Entry(entry.line, (key, cell)))
            elif _NAME.fullmatch(entry.key) and entry.value:
                self._report(file, entry.line, f"a template is for one of {_all_intents()}")

    def _take(self, intent: TemplateIntent, key: str, entry: Entry) -> None:
        template = self._templates[intent]
        self._templates[intent], why = self._takers[key](template, entry)
        if why:
            self._report(template.file, entry.line, why)

    def _report(self, file: str, line: int, why: str) -> None:
        self.unreadable.append(Unreadable(file, line, why))


def _intent(names: Iterable[str]) -> TemplateIntent | None:
    return next(filter(None, map(_INTENTS.get, names)), None)


def _all_intents() -> str:
    return ", ".join(f"`{intent.value}`" for intent in TemplateIntent)


def _with_first(template: Template, entry: Entry) -> _Taken:
    tool = named(word(entry.value))
    if tool not in TOOLS:
        return template, f"`{FIRST}` is one of {', '.join(f'`{name}`' for name in TOOLS)}"
    if tool == NEIGHBORS:
        why = f"`{NEIGHBORS}` needs a message to look around: it comes after the first search"
        return replace(template, neighbors=True), why
    if template.first:
        return template, f"`{FIRST}` stands here again: the first counts"
    return replace(template, first=tool), ""


def _with_rewrite(template: Template, entry: Entry) -> _Taken:
    if not 0 < len(entry.value) <= REWRITE_CHARS_MAX:
        return template, f"a `{REWRITE}` has 1 to {REWRITE_CHARS_MAX} characters"
    if unknown_placeholders(entry.value):
        return template, f"a `{REWRITE}` has no placeholders but `{{question}}` and `{{words}}`"
    if len(template.rewrites) == REWRITES_MAX:
        return template, f"a template has at most {REWRITES_MAX} rewrites"
    return replace(template, rewrites=(*template.rewrites, Rewrite(entry.value, entry.line))), ""


def _with_neighbors(template: Template, entry: Entry) -> _Taken:
    wanted = _YES_OR_NO.get(word(entry.value))
    if wanted is None:
        return template, f"`{NEIGHBORS_KEY}` is `true` or `false`"
    return replace(template, neighbors=wanted), ""
