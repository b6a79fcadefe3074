"""Which language a text is in, as far as its characters tell."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

CHINESE: Final = r"\u3400-\u9fff"
"""Chinese characters, as a range within the brackets of a pattern."""

_CHINESE: Final = re.compile(f"[{CHINESE}]")


class Language(Enum):
    """The languages whose grammar the rules know."""

    CHINESE = "zh"
    ENGLISH = "en"


def language_of(text: str) -> Language:
    """Return Chinese for a text with a Chinese character in it, and English for any other."""
    return Language.CHINESE if _CHINESE.search(text) else Language.ENGLISH
