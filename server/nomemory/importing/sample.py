"""Location of the sample messages that ship with NoMemory; sample/README.md describes them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_FILE: Final = Path("sample", "messages.jsonl")
_HERE: Final = Path(__file__)
_FOLDERS: Final = (_HERE.parents[1], _HERE.parents[3])
"""The parent folder of the sample in an installed package and in a source checkout."""


def get_sample_path() -> Path:
    """Return the path of the JSON Lines file with the sample messages."""
    return next(path for folder in _FOLDERS if (path := folder / _FILE).exists())
