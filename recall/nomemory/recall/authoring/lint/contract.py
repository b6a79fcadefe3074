"""Checks the sections of the form: what steers can be read, what belongs together is there, the evidence is named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from nomemory.recall.authoring.lint.document import Document
from nomemory.recall.authoring.lint.finding import Finding
from nomemory.recall.authoring.lint.rules import DURATION, EVIDENCE, SECTIONS, UNREADABLE
from nomemory.recall.skills.errors import SKILL_FILE
from nomemory.recall.skills.steering.defaults_reader import WINDOW, WINDOW_WRONG, window_in
from nomemory.recall.skills.steering.outline import Section, SectionKind, sections
from nomemory.recall.skills.steering.steering_reader import read_steering
from nomemory.recall.skills.steering.unreadable import UnreadableKind

_WINDOW: Final = re.compile(rf"(?<!\w){WINDOW}[`*\"']*\s*[:：=]\s*[`*\"']*([^\s`*\"'|,，;；。()（）]+)", re.IGNORECASE)
_TO_FILL_IN: Final = re.compile(r"[{<…$]|\.\.\.")
_FIELDS: Final = ("message_id", "ts", "role", "content", "time_range")
_RULES: Final = {UnreadableKind.DURATION: DURATION, UnreadableKind.ENTRY: UNREADABLE}


def contract_findings(texts: Mapping[str, str]) -> Iterator[Finding]:
    """Check the form of a skill, whose texts are given by their relative paths."""
    for one in read_steering(texts).unreadable:
        yield Finding(one.file, one.line, _RULES[one.kind], one.why)
    form = sections(texts.get(SKILL_FILE, ""))
    yield from _missing_sections(form)
    yield from _missing_fields(form)


def duration_findings(document: Document) -> Iterator[Finding]:
    """Find durations that are none, wherever a text sets a default range. What stands in braces is to be filled in."""
    for line in document.lines:
        for setting in _WINDOW.finditer(line.text):
            if not _TO_FILL_IN.search(setting[1]) and window_in(setting[1]) is None:
                yield Finding(document.file, line.number, DURATION, WINDOW_WRONG)


def _missing_sections(form: Iterable[Section]) -> Iterator[Finding]:
    """Find missing sections. A skill with a Scenario has all sections of the form."""
    stands = {section.kind: section.line for section in form if section.kind}
    if SectionKind.SCENARIO in stands:
        for kind in SectionKind:
            if kind not in stands:
                yield Finding(SKILL_FILE, stands[SectionKind.SCENARIO], SECTIONS, f"there is no section {kind.value}")


def _missing_fields(form: Iterable[Section]) -> Iterator[Finding]:
    for section in filter(_is_evidence, form):
        text = "\n".join(part.prose for part in section.parts)
        missing = [field for field in _FIELDS if not re.search(rf"(?<![A-Za-z_]){field}(?![A-Za-z_])", text)]
        if missing:
            yield Finding(
                SKILL_FILE, section.line, EVIDENCE, f"it does not name {', '.join(f'`{one}`' for one in missing)}"
            )


def _is_evidence(section: Section) -> bool:
    return section.kind is SectionKind.EVIDENCE_CONTRACT
