"""Tells the built site its languages: python scripts/site_languages.py FOLDER.

The builder knows one language for all pages. Here the Chinese pages are marked as such, and the search cuts texts into
words by the rules for Chinese, which do the same for English as those for English.
"""

from __future__ import annotations

import sys
from pathlib import Path

from usage import show_help


def replaced(file: Path, old: str, new: str) -> None:
    """Replace what a file has once at its beginning, or raise ValueError."""
    text = file.read_text(encoding="utf-8")
    if old not in text[:500]:
        raise ValueError(f"{file} does not begin with {old}: the builder has changed")
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


if __name__ == "__main__":
    show_help(__doc__)
    site = Path(sys.argv[1])
    replaced(site / "search.json", '"lang":["en"]', '"lang":["zh"]')
    for page in site.rglob("*.zh.html"):
        replaced(page, '<html lang="en"', '<html lang="zh-CN"')
