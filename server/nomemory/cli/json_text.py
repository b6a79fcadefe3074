"""JSON as the command line writes it: one object per line, in an encoding that the reader has."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Mapping

from nomemory.cli.printable import escaped


def json_line(record: Mapping[str, object]) -> str:
    """Return a record as one line. Where standard output is not UTF-8 it is all ASCII, which says the same."""
    return escaped(json.dumps(record, ensure_ascii=not _is_utf8(sys.stdout.encoding)))


def utf8_line(record: Mapping[str, object]) -> str:
    """Return a record as a line of a file in UTF-8, with its end."""
    return f"{escaped(json.dumps(record, ensure_ascii=False))}\n"


def json_block(block: str) -> str:
    """Return a text whose only odd characters stand in JSON in the same way, with its lines kept."""
    shown = escaped(block)
    return shown if _is_utf8(sys.stdout.encoding) else "".join(map(_in_ascii, shown))


def _in_ascii(char: str) -> str:
    return char if char.isascii() else json.dumps(char)[1:-1]


def _is_utf8(encoding: str | None) -> bool:
    return codecs.lookup(encoding or "ascii").name == "utf-8"
