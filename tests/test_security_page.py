"""Tests that each threat in docs/security.md names existing tests."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def threats() -> list[str]:
    """Return the threat entries, from a bold name to the end of the list item."""
    return re.findall(r"^- \*\*[^*]+\*\*: .+\\\n  .+$", PAGE, re.MULTILINE)


def test_every_threat_names_a_test() -> None:
    assert len(threats()) > 30
    assert [entry for entry in threats() if not NAMED.search(entry.splitlines()[1])] == []


def test_every_named_test_exists() -> None:
    named = NAMED.findall(PAGE)
    assert named
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert missing == []
    assert PAGE.count("::test_") == len(named)
