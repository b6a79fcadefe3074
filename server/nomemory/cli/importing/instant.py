"""Times as the sources write them: text in ISO 8601, or seconds (or milliseconds) since 1970."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_MILLISECONDS_FROM: Final = 1e11  # as seconds that would be the year 5138


def instant(value: object) -> datetime:
    """Read a moment.

    Raises:
        ValueError: it is not one. A text without a time zone is refused: where it was said decides when it was.
    """
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _from_number(value)
    raise ValueError("must be a time in RFC 3339 or a number of seconds since 1970")


def _from_text(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("is not a time in RFC 3339, like 2024-05-01T08:30:00Z") from None
    if moment.tzinfo is None:
        raise ValueError("has no time zone: append Z for UTC, or an offset like +08:00")
    return moment


def _from_number(number: float) -> datetime:
    try:
        seconds = number / 1000 if abs(number) >= _MILLISECONDS_FROM else number
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise ValueError("is out of range") from None
