"""Extract the text of a skill that a chat model needs for reading messages.

Instructions for searching and for the answer format are omitted, because the prompt already contains such instructions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from nomemory.recall.skills.loader import Skill
from nomemory.recall.skills.steering.outline import SectionKind, SkillSection, parse_sections
from nomemory.recall.tools.arguments import SearchFilter, TimeWindow
from nomemory.recall.tools.definitions import TOOLS

MAX_GUIDANCE_CHARS: Final = 4_000
"""Maximum number of characters in a skill's guidance; longer texts are truncated."""

_SEARCH_SECTIONS: Final = frozenset({SectionKind.DEFAULTS, SectionKind.QUERY_TEMPLATES, SectionKind.PLAYBOOK})
_MESSAGE_FIELDS: Final = frozenset({"message_id"})
"""Arguments that are also message fields. Their names do not indicate search instructions."""
_ANSWER_FIELDS: Final = frozenset({"citations"})
"""Field names that occur only in answers."""


def extract_guidance(skill: Skill) -> str:
    """Return the sections of a skill that mention neither tools and their arguments nor fields of the answer.

    Sections for the rule-based planner (defaults, query templates, playbook) are also omitted.
    """
    texts = [skill.body, *(text for path, text in skill.references.items() if not path.startswith("scripts/"))]
    guidance_text = "\n\n".join(part for text in texts for part in _select_guidance_sections(text))
    return (
        guidance_text
        if len(guidance_text) <= MAX_GUIDANCE_CHARS
        else f"{guidance_text[:MAX_GUIDANCE_CHARS]}\n(The skill goes on; it was cut here.)"
    )


def _select_guidance_sections(text: str) -> Iterator[str]:
    lines = text.splitlines()
    for section in parse_sections(text):
        section_text = "\n".join(lines[section.lines.start - 1 : section.lines.stop - 1]).strip()
        is_heading = section_text.startswith("#") and "\n" not in section_text
        if section_text and not is_heading and not _is_search_or_answer_format(section, section_text):
            yield section_text


def _is_search_or_answer_format(section: SkillSection, section_text: str) -> bool:
    return section.kind in _SEARCH_SECTIONS or _build_name_pattern().search(section_text) is not None


@cache
def _build_name_pattern() -> re.Pattern[str]:
    """Return a pattern that matches the names of tools, arguments and answer fields."""
    models = [*(tool.arguments for tool in TOOLS.values()), SearchFilter, TimeWindow]
    arguments = {name for model in models for name in model.model_fields} - _MESSAGE_FIELDS
    unquoted_names = [*_ANSWER_FIELDS, *(name for name in (*TOOLS, *arguments) if "_" in name)]
    return re.compile(
        rf"`(?:\w+\.)?(?:{_join_alternatives(arguments | set(TOOLS))})\b|\b(?:{_join_alternatives(unquoted_names)})\b"
    )


def _join_alternatives(names: Iterable[str]) -> str:
    return "|".join(sorted(names))
