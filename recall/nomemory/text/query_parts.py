"""Select the parts of a long query that are worth searching for, such as those of a pasted page."""

from __future__ import annotations

from typing import Final

from nomemory.text.sentences import sentence_texts
from nomemory.text.terms import terms

_PART_CHARS: Final = 1_000
"""Characters of a part. The local embedder reads about as many."""
_MAX_PARTS: Final = 4


def select_parts(text: str) -> list[str]:
    """Return the text, or of a longer one the first part, the last and the two between with the most terms.

    Parts consist of whole sentences and are returned in the order of the text. A pasted text is usually introduced or
    followed by what the person wants, so its ends always count.
    """
    if len(text) <= _PART_CHARS:
        return [text]
    parts = _split(text)
    between = sorted(range(1, len(parts) - 1), key=lambda number: (-len(terms(parts[number])), number))
    selected = {0, len(parts) - 1, *between[: _MAX_PARTS - 2]}
    return [parts[number] for number in sorted(selected)]


def _split(text: str) -> list[str]:
    """Split a text into parts of at most `_PART_CHARS` characters, at the ends of sentences where possible."""
    parts: list[str] = []
    for sentence in sentence_texts(text):
        for start in range(0, len(sentence), _PART_CHARS):
            piece = sentence[start : start + _PART_CHARS]
            if parts and len(parts[-1]) + len(piece) < _PART_CHARS:
                parts[-1] = f"{parts[-1]} {piece}"
            else:
                parts.append(piece)
    return parts
