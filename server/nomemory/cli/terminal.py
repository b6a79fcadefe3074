"""Text from elsewhere, made safe for a terminal: what was said must not move the cursor or reorder the line."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Mapping
from typing import Final

_PICTURES: Final = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421}
_UNSEEN: Final = dict.fromkeys(
    [
        *range(0x80, 0xA0),  # C1 controls, among them the one-character CSI
        *range(0x202A, 0x202F),  # bidirectional embeddings and overrides
        *range(0x2066, 0x206A),  # bidirectional isolates
    ],
    0xFFFD,
)
_BREAKS: Final = {0x0A: 0x0A, 0x09: 0x09, 0x0D: 0x20, 0x2028: 0x20, 0x2029: 0x20}
_BLOCK: Final = _PICTURES | _UNSEEN | _BREAKS
_LINE: Final = _PICTURES | _UNSEEN | {0x0D: 0x20, 0x2028: 0x20, 0x2029: 0x20}
_ESCAPES: Final = {
    code: f"\\u{code:04x}"
    for code in [
        0x7F,
        *_UNSEEN,
        0x2028,
        0x2029,
        *range(0xD800, 0xE000),  # half of a surrogate pair, as in the name of a file, has no bytes in UTF-8
    ]
}


def printable(text: str) -> str:
    """Replace what a terminal would act on, one character for one, so that offsets stay right. Lines and tabs stay."""
    return text.translate(_BLOCK)


def one_line(text: str) -> str:
    """Do the same for what must not break the line: names and ids."""
    return text.translate(_LINE)


def escaped(json: str) -> str:
    """Escape, in JSON text, what JSON leaves alone but a terminal acts on or cannot show. The value stays the same."""
    return json.translate(_ESCAPES)


def json_line(record: Mapping[str, object]) -> str:
    """Return a record as one line. Where standard output is not UTF-8 it is all ASCII, which says the same."""
    return escaped(json.dumps(record, ensure_ascii=not _is_utf8(sys.stdout.encoding)))


def utf8_line(record: Mapping[str, object]) -> str:
    """Return a record as a line of a file in UTF-8, with its end."""
    return f"{escaped(json.dumps(record, ensure_ascii=False))}\n"


def _is_utf8(encoding: str | None) -> bool:
    return codecs.lookup(encoding or "ascii").name == "utf-8"


def counted(number: int, noun: str) -> str:
    """Write a number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
