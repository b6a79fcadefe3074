"""Writes a draft into the files of a skill, and puts them in place once they pass the check."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from nomemory.recall.authoring.check import Report, check
from nomemory.recall.authoring.draft import NAME, TOP_K, Draft, Entry
from nomemory.recall.errors import RecallError
from nomemory.recall.skills.folder import SKILL_FILE
from nomemory.recall.skills.steering.template import TemplateIntent
from nomemory.text.language import Language

TEMPLATE_FILES: Final = {
    Language.CHINESE: "references/skill-template.zh.md",
    Language.ENGLISH: "references/skill-template.en.md",
}
"""Within the skill `retrieval-skill-creator`, where other agents find them, too."""

_PLACE: Final = re.compile(r"\{\{(\w+)\}\}")
_TITLES: Final = {
    TemplateIntent.PREFERENCES: "preferences · 偏好",
    TemplateIntent.PROFILE: "profile · 背景",
    TemplateIntent.CONSTRAINTS: "constraints · 约束",
    TemplateIntent.SCHEDULE: "schedule · 日程",
}
_DESCRIBED: Final = {
    Language.CHINESE: "为“{}”找回可核对的原话证据：偏好、背景、约束、日程，以及“上次 / 之前 / 最近”这类问题。",
    Language.ENGLISH: "Brings back checkable evidence for “{}”: preferences, profile, constraints and plans.",
}
_NONE: Final = {Language.CHINESE: "（暂无）", Language.ENGLISH: "(none yet)"}


class TemplateError(RecallError):
    """A template has a place that nothing fills; the text names it."""


def rendered(draft: Draft, template: str) -> dict[str, str]:
    """Return the texts of the skill by their relative paths.

    Args:
        draft: what goes in.
        template: a SKILL.md with places such as `{{name}}`.

    Raises:
        TemplateError: a place in the template is not known.
    """
    return {SKILL_FILE: _filled(template, _values(draft))}


def _values(draft: Draft) -> dict[str, str]:
    scenario, answers = draft.scenario, draft.answers
    description = _DESCRIBED[scenario.language].format(scenario.headline)
    return {
        "name": draft.name,
        "description": json.dumps(description, ensure_ascii=False),
        "title": scenario.headline,
        "scenario": scenario.text,
        "time_range_default": answers.time_range,
        "role_default": answers.role.value,
        "top_k_default": str(TOP_K),
        "lexicon": "".join(_lines(draft.lexicon)).rstrip() or _NONE[scenario.language],
        "query_templates": "\n".join(_queries(draft)).rstrip(),
    }


def _filled(template: str, values: Mapping[str, str]) -> str:
    """Fill in the places, in one pass: what is filled in is not looked at again."""

    def value(place: re.Match[str]) -> str:
        if place[1] not in values:
            raise TemplateError(f"the template has an unknown place {place[0]}")
        return values[place[1]]

    return _PLACE.sub(value, template)


def _lines(entries: Iterable[Entry]) -> Iterator[str]:
    return (f"- {entry.canonical}: {', '.join(entry.aliases)}\n" for entry in entries)


def _queries(draft: Draft) -> Iterator[str]:
    for intent, query in draft.queries.items():
        yield f"### {_TITLES[intent]}\n"
        yield f"- first: {query.first}"
        yield from (f"- rewrite: {rewrite}" for rewrite in query.rewrites)
        yield "- neighbors: true\n"


class NotCreatedError(RecallError):
    """A skill cannot be put where it was wanted; the text says why."""


class NotPassedError(NotCreatedError):
    """What would stand in the folder does not pass the check."""

    def __init__(self, report: Report) -> None:
        super().__init__("the skill would not pass nomemory skill check")
        self.report = report


def expect_room(name: str, library: Path, *, force: bool = False) -> None:
    """See whether a skill could be put there.

    Raises:
        NotCreatedError: the name is none, or the folder exists and may not be replaced.
    """
    if not NAME.fullmatch(name):
        raise NotCreatedError("a skill's name has 1 to 64 characters of a-z, 0-9 and -, and no - at its ends")
    folder = library / name
    if folder.is_symlink() or (folder.exists() and not (force and folder.is_dir())):
        raise NotCreatedError(f"{folder} exists already: choose another --name, or replace it with --force")


def put(files: Mapping[str, str], name: str, library: Path, *, force: bool = False) -> Report:
    """Write a skill into a folder of its name, all of it or nothing.

    Args:
        files: texts by their relative paths.
        name: the skill's name.
        library: the folder of skills; it is made if need be.
        force: replace these files where the folder exists; its other files stay.

    Returns:
        What the check says of it: warnings at most.

    Raises:
        NotPassedError: an error would be left; nothing was written.
        NotCreatedError: the name is none, or the folder exists.
        OSError: it cannot be written.
    """
    expect_room(name, library, force=force)
    folder = library / name
    library.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".nomemory-", dir=library) as scratch:
        made = Path(scratch) / name
        if folder.exists():
            shutil.copytree(folder, made, symlinks=True)
        report = _written(files, made)
        _swap(made, folder, Path(scratch) / "before")
    return Report(folder, report.findings)


def trial(files: Mapping[str, str], name: str) -> Report:
    """Check a skill that is not there yet."""
    with tempfile.TemporaryDirectory(prefix="nomemory-") as scratch:
        made = Path(scratch) / name
        _write(files, made)
        return check(made)


def _written(files: Mapping[str, str], folder: Path) -> Report:
    _write(files, folder)
    report = check(folder)
    if report.errors:
        raise NotPassedError(report)
    return report


def _write(files: Mapping[str, str], folder: Path) -> None:
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)  # a link there would be written through
        file.write_text(text, encoding="utf-8")


def _swap(made: Path, folder: Path, before: Path) -> None:
    """Put a folder in place of another by renaming: nobody sees half of it."""
    if folder.exists():
        folder.rename(before)
    made.rename(folder)
