"""Report banned names of variables, parameters and settings. The exit status is 1 if a banned name exists.

A variable is named after its content: `message`, `hit`, `term`, not `one`, `found` or `given`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from usage import show_help

from nomemory.server.runtime.settings.settings import list_settings_groups

ROOT: Final = Path(__file__).parent.parent
FOLDERS: Final = ("server", "recall", "clients/python", "scripts", "tests")
GENERATED: Final = ("clients/python/nomemory/v1",)
BANNED_NAMES: Final = frozenset(
    [
        "one",
        "found",
        "given",
        "said",
        "asked",
        "wanted",
        "known",
        "place",
        "places",
        "most",
        "own",
        "told",
        "beside",
        "narrowed",
    ]
)
BANNED_PREFIXES: Final = ("FORMER_", "MOST_", "OWN_")
BANNED_SUFFIXES: Final = ("_MAX", "_MIN")
"""Banned because the name of a limit has the form MAX_… or MIN_…."""


def find_banned_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and name of each banned variable, parameter and loop target, ignoring leading underscores."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case (
                ast.Name(id=str(name), ctx=ast.Store())
                | ast.arg(arg=str(name))
                | ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
            ) if name.lstrip("_").lower() in BANNED_NAMES:
                yield node.lineno, name
            case _:
                pass


def find_banned_settings(variables: Iterable[str]) -> list[str]:
    """Return the environment variables whose names, without NOMEMORY_, have a banned prefix or suffix."""
    return [
        variable
        for variable in variables
        if variable.removeprefix("NOMEMORY_").startswith(BANNED_PREFIXES) or variable.endswith(BANNED_SUFFIXES)
    ]


def find_source_files(root: Path) -> Iterator[Path]:
    """Yield the Python files to check, without generated code."""
    skipped = [root / folder for folder in GENERATED]
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            if not any(path.is_relative_to(parent) for parent in skipped):
                yield path


def main() -> int:
    """Print each banned name and return the exit status."""
    reports = [
        f"{path.relative_to(ROOT)}:{line}: rename {name!r} after its content"
        for path in find_source_files(ROOT)
        for line, name in sorted(find_banned_names(path.read_text(encoding="utf-8")))
    ]
    variables = [
        variable for group in list_settings_groups().values() for variable in group.map_variables_by_field().values()
    ]
    reports += [f"setting {variable}: banned prefix or suffix" for variable in find_banned_settings(variables)]
    print("\n".join(reports), file=sys.stderr, end="\n" if reports else "")
    return 1 if reports else 0


if __name__ == "__main__":
    show_help(__doc__)
    sys.exit(main())
