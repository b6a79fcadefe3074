"""Select the parts of a long query, such as a pasted page, that are worth searching for."""

from __future__ import annotations

from typing import Final

from nomemory.text.sentences import split_sentence_texts
from nomemory.text.terms import extract_terms

_PART_CHARS: Final = 1_000
"""Maximum number of characters in a part, about the input limit of the local embedder."""
_MAX_PARTS: Final = 4


def select_query_parts(text: str) -> list[str]:
    """Return a short text unchanged; from a long text, select the first, the last and the two most informative parts.

    Parts end at sentence ends where possible, and keep their original order. The most informative parts are those with
    the most distinct terms. The first and last parts are always selected because people write their question before or
    after a pasted text.
    """
    if len(text) <= _PART_CHARS:
        return [text]
    parts = _split_into_parts(text)
    middle_parts = sorted(range(1, len(parts) - 1), key=lambda number: (-len(extract_terms(parts[number])), number))
    selected = {0, len(parts) - 1, *middle_parts[: _MAX_PARTS - 2]}
    return [parts[index] for index in sorted(selected)]


def _split_into_parts(text: str) -> list[str]:
    """Split a text into parts of at most `_PART_CHARS` characters, at sentence ends where possible."""
    parts: list[str] = []
    for sentence in split_sentence_texts(text):
        for start in range(0, len(sentence), _PART_CHARS):
            piece = sentence[start : start + _PART_CHARS]
            if parts and len(parts[-1]) + len(piece) < _PART_CHARS:
                parts[-1] = f"{parts[-1]} {piece}"
            else:
                parts.append(piece)
    return parts
