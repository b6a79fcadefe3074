"""Formatting of the lines of a prompt block, and computation of its fence code."""

from __future__ import annotations

import json
import unicodedata
from datetime import datetime, tzinfo
from hashlib import sha256
from typing import Final

_CODE_CHARS: Final = 12
NO_CODE: Final = "0" * _CODE_CHARS
"""Placeholder with the length of a fence code."""

_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_INVISIBLE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Zl", "Zp"})
"""Unicode categories of control characters, invisible characters and line separators."""
_JOINERS: Final = "\u200c\u200d"
"""Zero-width non-joiner and joiner, which are not escaped because words and emoji contain them."""


def format_time(moment: datetime, zone: tzinfo | None) -> str:
    """Format a time in a time zone with its weekday, so that an LLM can resolve relative dates in a message."""
    try:
        local = moment.astimezone(zone)
    except OverflowError:
        local = moment  # the local time is outside the years 1 to 9999
    return f"{_WEEKDAYS[local.weekday()]} {local.replace(tzinfo=None).isoformat(' ', 'minutes')}"


def escape_invisible_characters(line: str) -> str:
    """Escape line separators and invisible characters, except zero-width joiners."""
    return line if line.isascii() else "".join(map(_escape_char, line))


def _escape_char(char: str) -> str:
    if char.isascii() or char in _JOINERS or unicodedata.category(char) not in _INVISIBLE_CATEGORIES:
        return char
    return json.dumps(char)[1:-1]


def compute_fence_code(lines: str) -> str:
    """Return the code for the fence: a hash of the lines that does not occur in the lines."""
    code = sha256(lines.encode()).hexdigest()[:_CODE_CHARS]
    while code in lines:
        code = sha256(code.encode()).hexdigest()[:_CODE_CHARS]
    return code
