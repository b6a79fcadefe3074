"""Checks the sections of the form: what steers can be read, what belongs together is there, the evidence is named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from nomemory.recall.authoring.lint.document import Document
from nomemory.recall.authoring.lint.finding import Finding
from nomemory.recall.authoring.lint.rules import DURATION, EVIDENCE, SECTIONS, UNREADABLE
from nomemory.recall.skills.folder import SKILL_FILE
from nomemory.recall.skills.steering.defaults_reader import WINDOW
from nomemory.recall.skills.steering.outline import Section, SectionKind, sections
from nomemory.recall.skills.steering.steering_reader import read_steering
from nomemory.recall.skills.steering.unreadable import Unreadable

_WINDOW: Final = re.compile(rf"(?<!\w){WINDOW}[`*\"']*\s*[:：=]\s*[`*\"']*([^\s`*\"'|,，;；。()（）]+)", re.IGNORECASE)
_TO_FILL_IN: Final = re.compile(r"[{<…$]|\.\.\.")
_FIELDS: Final = ("message_id", "ts", "role", "content", "time_range")
_NOT_ONE: Final = range(0)


def contract_findings(texts: Mapping[str, str]) -> Iterator[Finding]:
    """Check the form of a skill, whose texts are given by their relative paths."""
    for one in read_steering(texts).unreadable:
        yield Finding(one.file, one.line, DURATION if _is_window(one) else UNREADABLE, one.why)
    form = sections(texts.get(SKILL_FILE, ""))
    yield from _missing_sections(form)
    yield from _missing_fields(form)


def duration_findings(document: Document) -> Iterator[Finding]:
    """Find durations that are none, wherever a text sets a default range. What stands in braces is to be filled in."""
    for line in document.lines:
        for setting in _WINDOW.finditer(line.text):
            if not _TO_FILL_IN.search(setting[1]) and _window_fault(setting[1]):
                yield Finding(document.file, line.number, DURATION, _WINDOW_FAULT)


def evidence_lines(text: str) -> range:
    """Return the lines of the Evidence Contract; none where there is none."""
    form = sections(text)
    starts = [*(section.line for section in form), text.count("\n") + 2]
    found = (range(section.line, end) for section, end in zip(form, starts[1:], strict=True) if _is_evidence(section))
    return next(found, _NOT_ONE)


def _missing_sections(form: Iterable[Section]) -> Iterator[Finding]:
    """A skill that tells its scenario is one of the creator's form, and has all of it."""
    stands = {section.kind: section.line for section in form if section.kind}
    if SectionKind.SCENARIO in stands:
        for kind in SectionKind:
            if kind not in stands:
                yield Finding(SKILL_FILE, stands[SectionKind.SCENARIO], SECTIONS, f"there is no section {kind.value}")


def _missing_fields(form: Iterable[Section]) -> Iterator[Finding]:
    for section in filter(_is_evidence, form):
        text = "\n".join(line.text for part in section.parts for line in part.lines)
        missing = [field for field in _FIELDS if not re.search(rf"(?<![A-Za-z_]){field}(?![A-Za-z_])", text)]
        if missing:
            yield Finding(
                SKILL_FILE, section.line, EVIDENCE, f"it does not name {', '.join(f'`{one}`' for one in missing)}"
            )


def _is_evidence(section: Section) -> bool:
    return section.kind is SectionKind.EVIDENCE_CONTRACT


def _is_window(one: Unreadable) -> bool:
    return one.why == _WINDOW_FAULT and one.file == SKILL_FILE


def _window_fault(value: str) -> tuple[Unreadable, ...]:
    """Let the reader judge a default range."""
    return read_steering({SKILL_FILE: f"## {SectionKind.DEFAULTS.value}\n- {WINDOW}: {value}"}).unreadable


_WINDOW_FAULT: Final = _window_fault("-")[0].why
