"""Reads a file as a stream of JSON values, one held at a time: JSON Lines, an array, or values one after another."""

from __future__ import annotations

import codecs
import itertools
import json
import re
from collections.abc import Iterator
from typing import Final, NoReturn

from nomemory.importing.files import VALUE_MAX, ZIP, Bytes, Source
from nomemory.importing.record import SourceLocation, Record, Rejected

_SHOWN: Final = 1000
"""How much of a broken or long value is shown."""
_UP_TO_A_BRACKET: Final = re.compile(
    rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z))*+([\[\]{}]?)',
    re.DOTALL,
)
"""The next bracket that is not in a string, and what stands before it."""
_OPENING: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*(\[?)")
_OPENS: Final = (b"[", b"{")
_NO_SEPARATOR: Final = re.compile(rb"[^\s,]")
_SPACE: Final = b" \t\r\n"
_BLANK: Final = _SPACE + codecs.BOM_UTF8


def records(source: Source) -> Iterator[Record | Rejected]:
    """Read the JSON values of a file, whatever way they stand in it. What is broken costs itself.

    Why not ijson: its compiled parser puts `?` in place of half a surrogate pair, where nothing that was said may be
    altered in silence, and its memory grows with the square of the nesting. Its Python parser is 15 times slower.
    """
    if source.head.startswith(ZIP):
        yield Rejected(SourceLocation("item", 1), "", ("is a zip archive without conversations that can be read: unpack it",))
    elif _is_lines(source):
        yield from _lines(source)
    else:
        yield from _items(source)


def _is_lines(source: Source) -> bool:
    """Tell JSON Lines from an array, and from a value over many lines: there neither of the first two is one."""
    beginning = source.head.removeprefix(codecs.BOM_UTF8).lstrip(_SPACE)[:1]
    if beginning != b"{":
        return beginning != b"["
    first = itertools.islice((line for line in source.lines() if line.strip(_SPACE)), 2)
    return any(isinstance(_value(SourceLocation("line", 1), line), Record) for line in first)


def _lines(source: Source) -> Iterator[Record | Rejected]:
    for number, line in enumerate(source.lines(), 1):
        if line.strip(_BLANK):
            yield _value(SourceLocation("line", number), line)


def _items(source: Source) -> Iterator[Record | Rejected]:
    """Part the values by their brackets: those in the arrays that are the whole file, else those of the file itself."""
    content = source.content
    opening = _OPENING.match(content)
    begin = ended = opening.end() if opening else 0
    depth = floor = len(opening[1]) if opening else 0
    was_array = bool(floor)
    places = (SourceLocation("item", number) for number in itertools.count(1))
    for token in _UP_TO_A_BRACKET.finditer(content, begin):
        at = token.start(1)
        if token[1] == b"[" and was_array and not floor:
            yield from _strange(content, ended, at, places)
            depth, floor, ended = 1, 1, at + 1
        elif token[1] in _OPENS:
            if depth == floor:
                begin = at
                yield from _strange(content, ended, at, places)
            depth += 1
        elif token[1] and depth > floor:
            depth -= 1
            if depth == floor:
                ended = source.consumed = at + 1
                yield _value(next(places), content[begin : min(ended, begin + VALUE_MAX + 1)])
        elif token[1] == b"]" and floor:
            yield from _strange(content, ended, at, places)
            depth, floor, ended = 0, 0, at + 1
    if depth > floor:
        yield _value(next(places), content[begin : begin + VALUE_MAX + 1])
    elif floor:
        yield Rejected(next(places), "", ("is missing: the text ends inside of the array",))
    else:
        yield from _strange(content, ended, len(content), places)
    source.consumed = len(content)


def _strange(content: Bytes, begin: int, end: int, places: Iterator[SourceLocation]) -> Iterator[Rejected]:
    """Refuse what stands between values and is no comma."""
    if found := _NO_SEPARATOR.search(content, begin, end):
        shown = content[found.start() : min(end, found.start() + _SHOWN)]
        yield Rejected(next(places), shown.decode(errors="backslashreplace"), ("is neither an object nor an array",))


def _value(place: SourceLocation, text: bytes) -> Record | Rejected:
    if len(text) > VALUE_MAX:
        beginning = text[:_SHOWN].decode(errors="backslashreplace")
        return Rejected(place, beginning, (f"is longer than {VALUE_MAX:,} bytes",))
    shown = text.decode(errors="backslashreplace").strip("\ufeff \t\r\n")
    try:
        value = json.loads(text.decode("utf-8-sig"), parse_constant=_refuse)
    except UnicodeDecodeError:
        return Rejected(place, shown, ("is not JSON: it is not UTF-8",))
    except RecursionError:
        return Rejected(place, shown, ("is not JSON: nested too deeply",))
    except ValueError as error:
        return Rejected(place, shown, (f"is not JSON: {error}",))
    return Record(place, value, shown if place.unit == "line" else value)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")
