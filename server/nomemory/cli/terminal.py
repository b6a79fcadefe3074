"""Escape untrusted text for terminals, so that it cannot move the cursor or reorder a line."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Mapping
from typing import Final

_PICTURES: Final = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421}
_INVISIBLE: Final = dict.fromkeys(
    [
        *range(0x80, 0xA0),  # C1 controls, including the one-character CSI
        *range(0x202A, 0x202F),  # bidirectional embeddings and overrides
        *range(0x2066, 0x206A),  # bidirectional isolates
    ],
    0xFFFD,
)
_BREAKS: Final = {0x0A: 0x0A, 0x09: 0x09, 0x0D: 0x20, 0x2028: 0x20, 0x2029: 0x20}
_BLOCK: Final = _PICTURES | _INVISIBLE | _BREAKS
_LINE: Final = _PICTURES | _INVISIBLE | {0x0D: 0x20, 0x2028: 0x20, 0x2029: 0x20}
_ESCAPES: Final = {
    code: f"\\u{code:04x}"
    for code in [
        0x7F,
        *_INVISIBLE,
        0x2028,
        0x2029,
        *range(0xD800, 0xE000),  # unpaired surrogates, as in file names, cannot be encoded as UTF-8
    ]
}


def replace_control_characters(text: str) -> str:
    """Replace each control and bidirectional character except line breaks and tabs, without changing offsets."""
    return text.translate(_BLOCK)


def to_single_line(text: str) -> str:
    """Replace control and bidirectional characters and line breaks, for names and ids."""
    return text.translate(_LINE)


def escape_json(text: str) -> str:
    """Escape control and bidirectional characters in JSON text, without changing the parsed value."""
    return text.translate(_ESCAPES)


def encode_json_line(record: Mapping[str, object]) -> str:
    """Return a record as one line of JSON, in ASCII unless standard output is UTF-8."""
    return escape_json(json.dumps(record, ensure_ascii=not _is_utf8(sys.stdout.encoding)))


def encode_utf8_line(record: Mapping[str, object]) -> str:
    """Return a record as a line of JSON with a line break, for a UTF-8 file."""
    return f"{escape_json(json.dumps(record, ensure_ascii=False))}\n"


def _is_utf8(encoding: str | None) -> bool:
    return codecs.lookup(encoding or "ascii").name == "utf-8"


def pluralize(number: int, noun: str) -> str:
    """Return a number with a noun in singular or plural, such as `2 messages`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
