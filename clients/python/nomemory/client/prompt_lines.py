"""The lines of a block for a prompt, and the code of the fences around them."""

from __future__ import annotations

import json
import unicodedata
from datetime import datetime, tzinfo
from hashlib import sha256
from typing import Final

_CODE_CHARS: Final = 12
NO_CODE: Final = "0" * _CODE_CHARS
"""Stands for a code that is not known yet, and is as long."""

_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_UNSEEN: Final = frozenset({"Cc", "Cf", "Zl", "Zp"})
"""Categories of characters that end or turn around a line, or that no reader sees."""
_JOINERS: Final = "\u200c\u200d"
"""Unseen characters that letters and emoji are made with."""


def dated(moment: datetime, zone: tzinfo | None) -> str:
    """Return a time with its weekday, from which relative dates in a message are counted."""
    try:
        local = moment.astimezone(zone)
    except OverflowError:
        local = moment  # at the ends of the calendar
    return f"{_WEEKDAYS[local.weekday()]} {local.replace(tzinfo=None).isoformat(' ', 'minutes')}"


def visible(line: str) -> str:
    """Return a line with the characters escaped that would break it or not be seen."""
    return line if line.isascii() else "".join(map(_visible_char, line))


def _visible_char(char: str) -> str:
    if char.isascii() or char in _JOINERS or unicodedata.category(char) not in _UNSEEN:
        return char
    return json.dumps(char)[1:-1]


def code_of(lines: str) -> str:
    """Return a code that the lines determine and do not contain."""
    code = sha256(lines.encode()).hexdigest()[:_CODE_CHARS]
    while code in lines:
        code = sha256(code.encode()).hexdigest()[:_CODE_CHARS]
    return code
