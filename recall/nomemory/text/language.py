"""Detect the language of a text, and first- and second-person pronouns."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

CHINESE: Final = r"\u3400-\u9fff"
"""Range of Chinese characters for use inside a character class."""

FIRST_PERSON: Final = re.compile(r"\b(?:I|[Mm](?:e|y|ine)|[Ww]e|us|[Oo]urs?)\b|[我咱俺]")
"""First-person pronouns. Case matters: "US" is a country."""
SECOND_PERSON: Final = re.compile(r"\b[Yy](?:ou|ours?)\b|[你您]")
"""Second-person pronouns."""

_CHINESE: Final = re.compile(f"[{CHINESE}]")


class Language(Enum):
    """The languages that the grammar rules support."""

    CHINESE = "zh"
    ENGLISH = "en"


def detect_language(text: str) -> Language:
    """Return Chinese if a text contains a Chinese character, otherwise English."""
    return Language.CHINESE if _CHINESE.search(text) else Language.ENGLISH
