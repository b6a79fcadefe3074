"""Cuts a long text into parts that a model can take in."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SENTENCE_END = re.compile(r"[。！？!?…；;\n]+[”’」』\"')）\]]*|\.[”’\"')\]]*(?=\s)")
_PHRASE_END = re.compile(r"[，、,：:]|\s+")


def parts_of(text: str, part_chars: int, parts_max: int) -> list[str]:
    """Cut a text into parts of at most `part_chars` characters, about equally long, at the ends of sentences if it can.

    Every character that is not white space is in one part, in order, unless there are more than `parts_max` parts:
    what is beyond is left out. A stretch of nothing but white space is no part.
    """
    parts: list[str] = []
    for part in _stretches(text, part_chars):
        if len(parts) == parts_max:
            break
        if stripped := part.strip():
            parts.append(stripped)
    return parts


def _stretches(text: str, part_chars: int) -> Iterator[str]:
    at = 0
    while at < len(text):
        end = _end_of_part(text, at, part_chars)
        yield text[at:end]
        at = end


def _end_of_part(text: str, start: int, part_chars: int) -> int:
    """Choose where a part ends: as near as can be to an equal share of what is left."""
    left = len(text) - start
    if left <= part_chars:
        return len(text)
    share = -(-left // -(-left // part_chars))
    window = (start + (share + 1) // 2, start + part_chars)
    for boundary in (_SENTENCE_END, _PHRASE_END):
        ends = [found.end() for found in boundary.finditer(text, *window) if found.end() <= window[1]]
        if ends:
            return min(ends, key=lambda end: abs(end - start - share))
    return start + share
