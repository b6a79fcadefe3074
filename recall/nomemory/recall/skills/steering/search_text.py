"""Turns text of a skill into search text without operators."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_GRAMMAR: Final = re.compile(r"[\"“”„‟「」『』()\x00-\x1f\x7f]")
_NEGATION: Final = re.compile(r"(?:(?<=\s)|^)-+")


def search_text(text: str) -> str:
    """Turn what the query grammar reads as quotes, parentheses or a negation into spaces, full-width forms included."""
    folded = unicodedata.normalize("NFKC", text.encode("utf-8", "replace").decode("utf-8"))
    return " ".join(_NEGATION.sub(" ", _GRAMMAR.sub(" ", folded)).split())
