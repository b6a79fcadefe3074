"""Tests for the import order of the recall packages."""

from __future__ import annotations

import re
from pathlib import Path

import nomemory.recall

ROOT = Path(nomemory.recall.__path__[0])
LADDER = (
    "errors",
    "model",
    "grounding",
    "tools",
    "skills",
    "llm",
    "planning",
    "synthesis",
    "search",
    "reading",
    "context",
    "agent",
    "recall_span",
    "api",
    "authoring",
)
"""From the ground up. What stands here imports only what stands before it."""


def test_packages_import_only_lower_layers() -> None:
    for file in ROOT.rglob("*.py"):
        home = file.relative_to(ROOT).parts[0].removesuffix(".py")
        if home == "__init__":
            continue
        for target in re.findall(r"^from nomemory\.recall\.(\w+)", file.read_text(encoding="utf-8"), re.MULTILINE):
            assert LADDER.index(target) <= LADDER.index(home), f"{file}: {target}"
