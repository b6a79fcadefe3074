"""Score relative time expressions in messages, such as "yesterday", for questions with "when"."""

from __future__ import annotations

import re
from typing import Final

from nomemory.text.calendar_names import CHINESE_WEEKDAYS, WEEKDAYS
from nomemory.text.language import FIRST_PERSON

_DAY: Final = rf"(?:{'|'.join(day.removesuffix('day') for day in WEEKDAYS)}|tue|thur)(?:day)?"
_SPAN: Final = rf"(?:night|day|week|weekend|month|year|morning|few|time|{_DAY})s?"
_SAYS_WHEN_ENGLISH: Final = re.compile(
    r"\b(?=[ytarljsfnpo])(?:"  # All expressions begin with these letters. This check rejects most words quickly.
    r"(?:yesterday|today|tonight|tomorrow|ago|recently|lately|just|since we|few days)\b"
    rf"|(?:last|next|this|past|other) {_SPAN}\b)",
    re.IGNORECASE,
)
_SAYS_WHEN_CHINESE: Final = re.compile(
    f"昨天|前天|今天|明天|后天|上周|上个|下周|下个|刚刚|刚才|最近|去年|前年|今年|周[{CHINESE_WEEKDAYS}末]"
)
_TELLS_OF_SELF: Final = 1 / 3
"""Weight of a first-person pronoun relative to a time expression."""


def compute_temporal_cue_score(text: str) -> float:
    """Return a score, 0 to 4/3, of how clearly a message states when something happened to its sender."""
    has_chinese = not text.isascii()
    says_when = (has_chinese and _SAYS_WHEN_CHINESE.search(text)) or _SAYS_WHEN_ENGLISH.search(text)
    return bool(says_when) + _TELLS_OF_SELF * bool(FIRST_PERSON.search(text))
