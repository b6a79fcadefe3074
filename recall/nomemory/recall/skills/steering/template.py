"""Query templates of a skill, which set the first tool, additional queries, and whether to read neighbors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from nomemory.recall.skills.steering.outline import (
    InvalidEntry,
    SectionPart,
    SkillEntry,
    extract_first_word,
    normalize_key,
)
from nomemory.recall.tools.definitions import NEIGHBORS, TOOLS
from nomemory.text.analysis import analyze_text

_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_PLACEHOLDERS: Final = frozenset({"question", "words"})
_MAX_QUERY_CHARS: Final = 1_000
_MAX_REWRITES: Final = 4
_MAX_REWRITE_CHARS: Final = 200
_FIRST: Final = "first"
_REWRITE: Final = "rewrite"
_NEIGHBORS: Final = "neighbors"
_KEYS: Final = {
    **dict.fromkeys((_FIRST, "first_tool", "首选", "首选工具"), _FIRST),
    **dict.fromkeys((_REWRITE, "rewrites", "改写"), _REWRITE),
    **dict.fromkeys((_NEIGHBORS, "neighbours", "邻近"), _NEIGHBORS),
}
_YES_OR_NO: Final = {
    **dict.fromkeys(("true", "yes", "on", "是", "要", "开"), True),
    **dict.fromkeys(("false", "no", "off", "否", "不", "不要", "关"), False),
}


@dataclass(frozen=True, slots=True)
class QueryTemplate:
    """Search parameters of a skill for one kind of question.

    `first_tool` is the tool of the first search; None selects the default. `rewrites` are additional queries with the
    placeholders `{question}` (the question sentences) and `{words}` (the content words). If `reads_neighbors` is true,
    the messages around the best hits are read during the search.
    """

    title: str
    first_tool: str | None = None
    rewrites: tuple[str, ...] = ()
    reads_neighbors: bool = False

    @property
    def selection_terms(self) -> frozenset[str]:
        """The words that select the template, from its heading and its rewrites."""
        return frozenset(analyze_text(_PLACEHOLDER.sub(" ", " ".join((self.title, *self.rewrites)))).terms)

    def build_queries(self, question: str, words: str) -> list[str]:
        """Return the additional queries for a question. Placeholders in `rewrites` are replaced."""
        values = {"question": question, "words": words}
        filled = (_PLACEHOLDER.sub(lambda match: values[match[1]], rewrite) for rewrite in self.rewrites)
        return [" ".join(query.split())[:_MAX_QUERY_CHARS] for query in filled]


def read_templates(parts: Iterable[SectionPart]) -> tuple[list[QueryTemplate], list[InvalidEntry]]:
    """Parse the query template sections of a skill. A heading with an entry that has a supported key is a template."""
    templates: list[QueryTemplate] = []
    invalid: list[InvalidEntry] = []
    for part in parts:
        template = QueryTemplate(part.title)
        keyed = [(entry, _KEYS.get(normalize_key(entry.key))) for entry in part.entries]
        for entry, key in keyed:
            if key is None:
                problem = (
                    "unknown key; a template supports `first`, `rewrite` and `neighbors`" if entry.is_setting else ""
                )
            else:
                template, problem = _set_template_parameter(template, key, entry)
            if problem:
                invalid.append(entry.to_invalid_entry(problem))
        if any(key for _, key in keyed):
            templates.append(template)
    return templates, invalid


def _set_template_parameter(template: QueryTemplate, key: str, entry: SkillEntry) -> tuple[QueryTemplate, str]:
    """Set the template parameter that an entry names.

    Return the new template, and an error message, which is empty if the entry is valid.
    """
    if key == _FIRST:
        return _set_first_tool(template, normalize_key(extract_first_word(entry.value)))
    if key == _REWRITE:
        return _add_rewrite(template, entry.value)
    enabled = _YES_OR_NO.get(extract_first_word(entry.value))
    return replace(
        template, reads_neighbors=bool(enabled)
    ), "" if enabled is not None else "`neighbors` must be `true` or `false`"


def _set_first_tool(template: QueryTemplate, tool: str) -> tuple[QueryTemplate, str]:
    if tool not in TOOLS:
        return template, f"`first` must be one of {', '.join(f'`{name}`' for name in TOOLS)}"
    if tool == NEIGHBORS:
        return template, f"`first` cannot be `{NEIGHBORS}`, which needs a message of an earlier search"
    if template.first_tool:
        return template, "duplicate `first`: the first value is used"
    return replace(template, first_tool=tool), ""


def _add_rewrite(template: QueryTemplate, text: str) -> tuple[QueryTemplate, str]:
    if not 0 < len(text) <= _MAX_REWRITE_CHARS:
        return template, f"a `rewrite` must have 1 to {_MAX_REWRITE_CHARS} characters"
    if not _PLACEHOLDERS.issuperset(_PLACEHOLDER.findall(text)):
        return template, "a `rewrite` supports only the placeholders `{question}` and `{words}`"
    if len(template.rewrites) == _MAX_REWRITES:
        return template, f"a template has at most {_MAX_REWRITES} rewrites"
    return replace(template, rewrites=(*template.rewrites, text)), ""
