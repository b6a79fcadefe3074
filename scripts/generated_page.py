"""Write generated files, or check that they are up to date."""

from __future__ import annotations

import sys
from pathlib import Path


def write_or_check_page(page: Path, text: str) -> int:
    """Write a generated page, or only compare it if the command line has --check; return the exit status."""
    if "--check" not in sys.argv:
        page.write_text(text, encoding="utf-8")
        return 0
    if page.exists() and page.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"{page.name} is out of date: run {sys.argv[0]}\n")
    return 1
