"""Build the search query from the latest turns of a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nomemory.recall.model.question import Role, Turn

_SHORT_CHARS: Final = 40
"""Minimum length of a last turn that is searched without the turns directly before it."""
_PREVIOUS_TURNS: Final = 2
_MAX_TURNS: Final = 20
"""Maximum number of turns from the first turn to the last one, which is also the maximum of a request."""
_MAX_TOPIC_CHARS: Final = 200
"""Maximum length of the part of the first turn that is searched."""
_MAX_CHARS: Final = 32_000
"""Maximum length of a query."""


def build_query_text(turns: Sequence[Turn]) -> str:
    """Return the user's last turn, with the user's first turn before it, which usually names the topic.

    If the last turn is short, up to two turns before it are included. In a long conversation, the first turn is the
    user's first turn among the `_MAX_TURNS` turns that end with the last turn.
    """
    last = _find_last_user_turn(turns)
    if last is None:
        return ""
    start = max(0, last - _PREVIOUS_TURNS) if len(turns[last].text.strip()) < _SHORT_CHARS else last
    earlier = turns[max(0, last + 1 - _MAX_TURNS) : start]
    topic = [turn.text.strip()[:_MAX_TOPIC_CHARS] for turn in earlier if turn.role is Role.USER][:1]
    return _join_and_shorten([*topic, *(turn.text.strip() for turn in turns[start : last + 1])])


def _find_last_user_turn(turns: Sequence[Turn]) -> int | None:
    """Return the index of the user's last turn, or of the last turn if no turn is from the user."""
    positions = [position for position, turn in enumerate(turns) if turn.role is Role.USER]
    return positions[-1] if positions else len(turns) - 1 if turns else None


def _join_and_shorten(texts: Sequence[str]) -> str:
    """Join texts up to the maximum length. If the last text alone is too long, remove the middle of that text."""
    last = texts[-1]
    if len(last) > _MAX_CHARS:
        half = _MAX_CHARS // 2
        return f"{last[: half - 1]}\n{last[-half:]}"
    previous = "\n".join(texts[:-1])[-max(0, _MAX_CHARS - len(last) - 1) :] if len(last) < _MAX_CHARS - 1 else ""
    return f"{previous}\n{last}".strip()
