"""Split long texts into parts that a model can embed."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SENTENCE_END = re.compile(r"[。！？!?…；;\n]+[”’」』\"')）\]]*|\.[”’\"')\]]*(?=\s)")
_PHRASE_END = re.compile(r"[，、,：:]|\s+")


def split_text(text: str, max_chars: int, max_parts: int) -> list[str]:
    """Split a text into at most `max_parts` parts of at most `max_chars` characters, preferably at sentence ends.

    The parts are about equally long and in the order of the text. White space at the ends of parts and text beyond the
    last part are dropped.
    """
    parts: list[str] = []
    for part in _split_at_boundaries(text, max_chars):
        if len(parts) == max_parts:
            break
        if stripped := part.strip():
            parts.append(stripped)
    return parts


def _split_at_boundaries(text: str, max_chars: int) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = _find_part_end(text, start, max_chars)
        yield text[start:end]
        start = end


def _find_part_end(text: str, start: int, max_chars: int) -> int:
    """Return the end of the next part: the end of a sentence or phrase that divides the remaining text most evenly."""
    left = len(text) - start
    if left <= max_chars:
        return len(text)
    share = -(-left // -(-left // max_chars))
    window = (start + (share + 1) // 2, start + max_chars)
    for boundary in (_SENTENCE_END, _PHRASE_END):
        ends = [match.end() for match in boundary.finditer(text, *window) if match.end() <= window[1]]
        if ends:
            return min(ends, key=lambda end: abs(end - start - share))
    return start + share
