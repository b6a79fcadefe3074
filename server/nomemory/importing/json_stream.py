"""Read JSON Lines, a JSON array or concatenated JSON values one value at a time."""

from __future__ import annotations

import codecs
import itertools
import json
import re
from collections.abc import Iterator
from typing import Final, NoReturn

from nomemory.importing.files import VALUE_MAX, ZIP, Bytes, ImportFile
from nomemory.importing.record import Record, RejectedRecord, SourceLocation

_SHOWN_CHARS: Final = 1000
"""Maximum number of characters of an invalid or oversized value that are written to the rejects file."""
_NEXT_BRACKET: Final = re.compile(
    rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z))*+([\[\]{}]?)',
    re.DOTALL,
)
"""A pattern that matches the text up to the next bracket outside a string."""
_OPENING: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*(\[?)")
_OPENS: Final = (b"[", b"{")
_NO_SEPARATOR: Final = re.compile(rb"[^\s,]")
_SPACE: Final = b" \t\r\n"
_BLANK: Final = _SPACE + codecs.BOM_UTF8


def read_json_values(source: ImportFile) -> Iterator[Record | RejectedRecord]:
    """Read the JSON values of a file. An invalid value is rejected, and reading continues after it.

    The library ijson is not used, because its compiled parser silently replaces unpaired surrogates with `?`, and its
    memory use grows with the square of the nesting depth. The pure Python parser of ijson is 15 times slower.
    """
    if source.head.startswith(ZIP):
        yield RejectedRecord(
            SourceLocation("item", 1), "", ("is a zip archive without readable conversations; extract it first",)
        )
    elif _is_json_lines(source):
        yield from _read_lines(source)
    else:
        yield from _split_json_values(source)


def _is_json_lines(source: ImportFile) -> bool:
    """Return whether a file is JSON Lines: one of its first two lines is a complete value other than an array."""
    beginning = source.head.removeprefix(codecs.BOM_UTF8).lstrip(_SPACE)[:1]
    if beginning != b"{":
        return beginning != b"["
    first_lines = itertools.islice((line for line in source.read_lines() if line.strip(_SPACE)), 2)
    return any(isinstance(_parse_value(SourceLocation("line", 1), line), Record) for line in first_lines)


def _read_lines(source: ImportFile) -> Iterator[Record | RejectedRecord]:
    for number, line in enumerate(source.read_lines(), 1):
        if line.strip(_BLANK):
            yield _parse_value(SourceLocation("line", number), line)


def _split_json_values(source: ImportFile) -> Iterator[Record | RejectedRecord]:
    """Split a file into JSON values by bracket depth. An array at the top level is split into its items."""
    content = source.content
    opening = _OPENING.match(content)
    begin = ended = opening.end() if opening else 0
    depth = floor = len(opening[1]) if opening else 0
    was_array = bool(floor)
    locations = (SourceLocation("item", number) for number in itertools.count(1))
    for token in _NEXT_BRACKET.finditer(content, begin):
        at = token.start(1)
        if token[1] == b"[" and was_array and not floor:
            yield from _reject_text_between_values(content, ended, at, locations)
            depth, floor, ended = 1, 1, at + 1
        elif token[1] in _OPENS:
            if depth == floor:
                begin = at
                yield from _reject_text_between_values(content, ended, at, locations)
            depth += 1
        elif token[1] and depth > floor:
            depth -= 1
            if depth == floor:
                ended = source.consumed = at + 1
                yield _parse_value(next(locations), content[begin : min(ended, begin + VALUE_MAX + 1)])
        elif token[1] == b"]" and floor:
            yield from _reject_text_between_values(content, ended, at, locations)
            depth, floor, ended = 0, 0, at + 1
    if depth > floor:
        yield _parse_value(next(locations), content[begin : begin + VALUE_MAX + 1])
    elif floor:
        yield RejectedRecord(next(locations), "", ("the file ends inside the array",))
    else:
        yield from _reject_text_between_values(content, ended, len(content), locations)
    source.consumed = len(content)


def _reject_text_between_values(
    content: Bytes, begin: int, end: int, locations: Iterator[SourceLocation]
) -> Iterator[RejectedRecord]:
    """Reject text between two JSON values, other than commas and white space."""
    if match := _NO_SEPARATOR.search(content, begin, end):
        shown = content[match.start() : min(end, match.start() + _SHOWN_CHARS)]
        yield RejectedRecord(
            next(locations), shown.decode(errors="backslashreplace"), ("is neither an object nor an array",)
        )


def _parse_value(location: SourceLocation, text: bytes) -> Record | RejectedRecord:
    if len(text) > VALUE_MAX:
        beginning = text[:_SHOWN_CHARS].decode(errors="backslashreplace")
        return RejectedRecord(location, beginning, (f"is longer than {VALUE_MAX:,} bytes",))
    shown = text.decode(errors="backslashreplace").strip("\ufeff \t\r\n")
    try:
        value = json.loads(text.decode("utf-8-sig"), parse_constant=_reject_json_constant)
    except UnicodeDecodeError:
        return RejectedRecord(location, shown, ("is not JSON: it is not UTF-8",))
    except RecursionError:
        return RejectedRecord(location, shown, ("is not JSON: nested too deeply",))
    except ValueError as error:
        return RejectedRecord(location, shown, (f"is not JSON: {error}",))
    return Record(location, value, shown if location.unit == "line" else value)


def _reject_json_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")
