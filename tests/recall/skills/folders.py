"""Helpers that write skill folders."""

from __future__ import annotations

import re
from pathlib import Path

DESCRIPTION = "Finds what was said about tea."


def written(library: Path, name: str = "tea", /, **files: str | bytes) -> Path:
    """Write a valid skill; `files` adds or replaces files.

    In file names, `__` stands for `/`, and the endings `_md`, `_yaml` and `_json` for file extensions.
    """
    folder = library / name
    skill = f"---\nname: {name}\ndescription: {DESCRIPTION}\n---\n\n# Tea\n\nSearch for tea.\n"
    for path, content in {"SKILL_md": skill, **files}.items():
        file = folder / re.sub(r"_(md|yaml|json)$", r".\1", path.replace("__", "/"))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def head(lines: str, body: str = "Search for tea.") -> str:
    """Return a SKILL.md with the given frontmatter."""
    return f"---\n{lines}\n---\n{body}\n"
