"""The texts that messages are embedded by: a long one is cut into parts that a model can take in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final

from nomemory.server import wire
from nomemory.server.log.feed import ChangeFeed
from nomemory.server.vector.indexing.comparison import Cut

_SENTENCE_END = re.compile(r"[。！？!?…；;\n]+[”’」』\"')）\]]*|\.[”’\"')\]]*(?=\s)")
_PHRASE_END = re.compile(r"[，、,：:]|\s+")


def parts_of(text: str, part_chars: int, parts_max: int) -> list[str]:
    """Cut a text into parts of at most `part_chars` characters, about equally long, at the ends of sentences if it can.

    Every character that is not white space is in one part, in order, unless there are more than `parts_max` parts:
    what is beyond is left out. A part of nothing but white space is no part.
    """
    parts: list[str] = []
    for part in _raw_parts(text, part_chars):
        if len(parts) == parts_max:
            break
        if stripped := part.strip():
            parts.append(stripped)
    return parts


def _raw_parts(text: str, part_chars: int) -> Iterator[str]:
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


_USERS_MAX: Final = 256
_DECODED_MAX: Final = 200


def living_texts(open_feed: Callable[[], ChangeFeed], cut: Cut) -> Iterator[list[str]]:
    """Give them, some at a time, of all messages that the log has when this begins."""
    with closing(open_feed()) as log:
        until, after = log.sequence(), ""
        while users := log.users(after, _USERS_MAX):
            for user_id in users:
                yield from _of_user(log, user_id, until, cut)
            after = users[-1]


def _of_user(log: ChangeFeed, user_id: str, until: int, cut: Cut) -> Iterator[list[str]]:
    ids = [version.message_id for version in log.versions(user_id, until, own_vectors_only=False)]
    for at in range(0, len(ids), _DECODED_MAX):
        stored = log.by_ids(user_id, ids[at : at + _DECODED_MAX]).values()
        yield [text for message in stored for text in cut(wire.decode(message.wire).content)]
