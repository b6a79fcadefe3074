"""Set the languages of the built site: python scripts/site_languages.py FOLDER.

The site builder supports one language for all pages. This script sets the `lang` attribute of the Chinese pages and
selects the Chinese tokenizer for search, which also tokenizes English.
"""

from __future__ import annotations

import sys
from pathlib import Path

from usage import show_help


def replace_in_head(file: Path, old: str, new: str) -> None:
    """Replace the first occurrence of a text in a file.

    Raises:
        ValueError: the first 500 characters do not contain the text.
    """
    text = file.read_text(encoding="utf-8")
    if old not in text[:500]:
        raise ValueError(
            f"{file}: {old} is missing from the first 500 characters: adapt this script to the site builder"
        )
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


if __name__ == "__main__":
    show_help(__doc__)
    site = Path(sys.argv[1])
    replace_in_head(site / "search.json", '"lang":["en"]', '"lang":["zh"]')
    for page in site.rglob("*.zh.html"):
        replace_in_head(page, '<html lang="en"', '<html lang="zh-CN"')
