"""Reads the steering of a skill from its texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from nomemory.recall.skills.steering.defaults_reader import DefaultsReader
from nomemory.recall.skills.steering.lexicon_reader import LexiconReader
from nomemory.recall.skills.steering.outline import SectionKind, sections
from nomemory.recall.skills.steering.steering import Steering
from nomemory.recall.skills.steering.template_reader import TemplateReader
from nomemory.recall.skills.steering.unreadable import Unreadable

SKILL_FILE: Final = "SKILL.md"
LEXICON_FILE: Final = "references/lexicon.md"

_UNREADABLE_MAX: Final = 200
_ALIKE_MAX: Final = 20
"""Of what cannot be read for one and the same reason, so much is told."""


def read_steering(texts: Mapping[str, str]) -> Steering:
    """Read a skill leniently: other text is prose, and entries that cannot be read are reported. Never raises.

    Takes time linear in the length of the texts.

    Args:
        texts: whole files by their paths within the skill, frontmatter included. `SKILL.md` has all sections;
            `references/lexicon.md` is a lexicon from its first line on, whatever its headings say. No other file
            steers.
    """
    defaults, lexicon, templates = DefaultsReader(), LexiconReader(), TemplateReader()
    readers: dict[SectionKind | None, DefaultsReader | LexiconReader | TemplateReader] = {
        SectionKind.DEFAULTS: defaults,
        SectionKind.LEXICON: lexicon,
        SectionKind.QUERY_TEMPLATES: templates,
    }
    for section in sections(texts.get(SKILL_FILE, "")):
        if section.kind in readers:
            readers[section.kind].read(SKILL_FILE, section)
    for section in sections(texts.get(LEXICON_FILE, "")):
        lexicon.read(LEXICON_FILE, section)
    unreadable = sorted(
        (*defaults.unreadable, *templates.unreadable, *lexicon.unreadable),
        key=lambda one: (one.file != SKILL_FILE, one.line),
    )
    return Steering(
        defaults=defaults.defaults(),
        lexicon=lexicon.lexicon(),
        templates=templates.templates(),
        unreadable=_told(unreadable),
        unreadable_count=len(unreadable),
    )


def _told(unreadable: Iterable[Unreadable]) -> tuple[Unreadable, ...]:
    """Return the first unreadable entries, with a limit for each reason."""
    alike = Counter[str]()
    told: list[Unreadable] = []
    for one in unreadable:
        alike[one.why] += 1
        if alike[one.why] <= _ALIKE_MAX and len(told) < _UNREADABLE_MAX:
            told.append(one)
    return tuple(told)
