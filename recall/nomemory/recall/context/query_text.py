"""Build the search query from the latest turns of a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nomemory.recall.model.question import Role, Turn

_SHORT_CHARS: Final = 40
"""Minimum number of characters in a turn that is searched without the preceding turns."""
_PREVIOUS_TURNS: Final = 2


def build_query_text(turns: Sequence[Turn], max_chars: int) -> str:
    """Return the user's last turn, with up to two earlier turns before it if the turn is short.

    If the text is longer than `max_chars`, the earlier turns or the middle of the last turn are shortened.
    """
    last = _find_last_user_turn(turns)
    if last is None:
        return ""
    first = max(0, last - _PREVIOUS_TURNS) if len(turns[last].text.strip()) < _SHORT_CHARS else last
    return _join_and_shorten([turn.text.strip() for turn in turns[first : last + 1]], max_chars)


def _find_last_user_turn(turns: Sequence[Turn]) -> int | None:
    """Return the index of the user's last turn, or of the last turn if no turn is from the user."""
    positions = [position for position, turn in enumerate(turns) if turn.role is Role.USER]
    return positions[-1] if positions else len(turns) - 1 if turns else None


def _join_and_shorten(texts: Sequence[str], max_chars: int) -> str:
    """Join texts up to the maximum length. If the last text alone is too long, remove the middle of that text."""
    last = texts[-1]
    if len(last) > max_chars:
        half = max_chars // 2
        return f"{last[: half - 1]}\n{last[-half:]}" if half > 1 else last[:max_chars]
    previous = "\n".join(texts[:-1])[-max(0, max_chars - len(last) - 1) :] if len(last) < max_chars - 1 else ""
    return f"{previous}\n{last}".strip()
