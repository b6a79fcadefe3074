"""Which language a text is in, as far as its characters tell, and of whom its pronouns speak."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

CHINESE: Final = r"\u3400-\u9fff"
"""Chinese characters, as a range within the brackets of a pattern."""

FIRST_PERSON: Final = re.compile(r"\b(?:I|[Mm](?:e|y|ine)|[Ww]e|us|[Oo]urs?)\b|[我咱俺]")
"""Speakers speak of themselves. Case counts: “US” is a country."""
SECOND_PERSON: Final = re.compile(r"\b[Yy](?:ou|ours?)\b|[你您]")
"""They speak of whom they address."""

_CHINESE: Final = re.compile(f"[{CHINESE}]")


class Language(Enum):
    """The languages whose grammar the rules know."""

    CHINESE = "zh"
    ENGLISH = "en"


def language_of(text: str) -> Language:
    """Return Chinese for a text with a Chinese character in it, and English for any other."""
    return Language.CHINESE if _CHINESE.search(text) else Language.ENGLISH
