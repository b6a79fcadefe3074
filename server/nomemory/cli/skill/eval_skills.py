"""The skills that `nomemory skill eval` is told to compare: names, and where they are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from nomemory.recall.skills.folder import SKILL_FILE


@dataclass(frozen=True, slots=True)
class Skills:
    """Names of skills, each once, and the folders to look for them in, first ones first."""

    names: tuple[str, ...]
    folders: tuple[Path, ...]


def skills_of(given: Sequence[str], folders: Sequence[Path]) -> Skills:
    """Read what stands for a skill: a name, or the path of its folder, which has a slash in it.

    Raises:
        click.UsageError: there is no skill at a path, or two have the same name.
    """
    paths = [Path(text).resolve() if _is_path(text) else None for text in given]
    names = [path.name if path else text for path, text in zip(paths, given, strict=True)]
    for path, text in zip(paths, given, strict=True):
        if path and not (path / SKILL_FILE).is_file():
            raise click.UsageError(f"There is no {SKILL_FILE} in {text}.")
    if len(set(names)) < len(names):
        raise click.UsageError("Two of the skills have the same name: a skill is known by the name of its folder.")
    libraries = [path.parent for path in paths if path]
    return Skills(tuple(names), tuple(dict.fromkeys([*libraries, *(folder.resolve() for folder in folders)])))


def _is_path(text: str) -> bool:
    return os.sep in text or text in (os.curdir, os.pardir)
