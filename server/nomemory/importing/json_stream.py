"""Reads a file as a stream of JSON values, in bounded memory: JSON Lines, an array, or a single value."""

from __future__ import annotations

import codecs
import io
import itertools
import json
import re
from collections.abc import Iterator
from typing import Final

import orjson

from nomemory.importing.draft import Place, Record, Refused
from nomemory.importing.files import Source

BOM: Final = codecs.BOM_UTF8
_CHUNK: Final = 1 << 20
_VALUE_MAX: Final = 1 << 25
"""Longest line in bytes, and longest item of an array in characters. A longer one is not held."""
_SHOWN: Final = 1000  # characters of one that is too long
_TAIL: Final = 12  # a literal or an escape that is cut off is no longer than this
_NO_SEPARATOR: Final = re.compile(r"[^\s,]")
_SPACE: Final = b" \t\r\n"
_ZIP: Final = b"PK\x03\x04"


class _OversizedError(ValueError):
    """A value is too long to be held."""


def records(source: Source) -> Iterator[Record | Refused]:
    """Read the JSON values of a file, whatever way they stand in it.

    A bad line costs itself. A bad item of an array costs what follows it, because nothing says where the next begins.
    """
    stream = io.BufferedReader(source, _CHUNK)
    if source.head.startswith(_ZIP):
        yield Refused(Place("item", 1), "", ("is a zip archive: unpack it and import the JSON file in it",))
    elif _is_lines(source.head):
        yield from _lines(stream)
    else:
        yield from _items(stream)


def _is_lines(head: bytes) -> bool:
    """Tell JSON Lines from an array, or from one value that spans lines."""
    text = head.removeprefix(BOM).lstrip(_SPACE)
    if text.startswith(b"["):
        return False
    try:
        orjson.loads(text.partition(b"\n")[0])
    except orjson.JSONDecodeError:
        return not _spans_lines(text.decode(errors="ignore"))
    return True


def _spans_lines(text: str) -> bool:
    """Return whether the first value goes on beyond its first line, so far as the text shows."""
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError as error:
        end = len(text) if _is_cut_off(error, text) else 0
    except RecursionError:
        end = 0
    return "\n" in text[:end]


def _is_cut_off(error: json.JSONDecodeError, text: str) -> bool:
    """Tell a value that only lacks its end from one that is wrong."""
    return error.msg.startswith("Unterminated string") or error.pos >= len(text) - _TAIL


def _lines(stream: io.BufferedReader[Source]) -> Iterator[Record | Refused]:
    for number in itertools.count(1):
        line = stream.readline(_VALUE_MAX)
        if not line:
            return
        text = line.removeprefix(BOM) if number == 1 else line
        if len(line) == _VALUE_MAX and _skip_line(stream, line):
            beginning = text[:_SHOWN].decode(errors="backslashreplace")
            yield Refused(Place("line", number), beginning, (f"is a line of more than {_VALUE_MAX:,} bytes",))
        elif text.strip(_SPACE):
            yield _line(Place("line", number), text.strip(_SPACE))


def _skip_line(stream: io.BufferedReader[Source], beginning: bytes) -> bool:
    """Read on to the next line, without holding what is skipped; return whether there was anything to skip."""
    piece, skipped = beginning, False
    while not piece.endswith(b"\n") and (piece := stream.readline(_CHUNK)):
        skipped = True
    return skipped


def _line(place: Place, line: bytes) -> Record | Refused:
    original = line.decode(errors="backslashreplace")
    try:
        return Record(place, orjson.loads(line), original)
    except orjson.JSONDecodeError as error:
        return Refused(place, original, (f"is not JSON: {error.msg} (character {error.pos + 1})",))


def _items(stream: io.BufferedReader[Source]) -> Iterator[Record | Refused]:
    number = 0
    try:
        for number, value in enumerate(_Window(io.TextIOWrapper(stream, encoding="utf-8-sig")), 1):
            yield Record(Place("item", number), value, value)
    except (ValueError, RecursionError) as error:
        yield Refused(Place("item", number + 1), "", (f"{_fault(error)}; what follows was not read",))


def _fault(error: ValueError | RecursionError) -> str:
    match error:
        case UnicodeDecodeError():
            return "is not UTF-8"
        case _OversizedError():
            return str(error)
        case json.JSONDecodeError():
            return f"is not JSON: {error.msg}"
        case RecursionError():
            return "is not JSON: nested too deeply"
        case _:
            return f"is not JSON: {error}"


class _Window:
    """Decodes value after value from a window of text that grows until it holds a whole one.

    Why not ijson: its compiled parser puts `?` in place of half a surrogate pair, where nothing that was said may be
    altered in silence, and its memory grows with the square of the nesting. Its Python parser is 15 times slower.

    Iterating raises ValueError where the text is not JSON, or ends inside of the array.
    """

    def __init__(self, text: io.TextIOWrapper) -> None:
        self._text = text
        self._buffer = ""
        self._start = 0
        self._in_array = False
        self._decoder = json.JSONDecoder()

    def __iter__(self) -> Iterator[object]:
        self._open()
        while self._find():
            yield self._take()

    def _open(self) -> None:
        if self._find() and self._buffer.startswith("[", self._start):
            self._in_array = True
            self._start += 1

    def _find(self) -> bool:
        """Go to the next value; False at the end."""
        while True:
            self._start = self._after_separators()
            if self._start < len(self._buffer):
                if not (self._in_array and self._buffer[self._start] == "]"):
                    return True
                self._in_array = False
                self._start += 1
            elif not self._grow(_CHUNK):
                break
        if self._in_array:
            raise ValueError("the text ends inside of the array")
        return False

    def _after_separators(self) -> int:
        following = _NO_SEPARATOR.search(self._buffer, self._start)
        return following.start() if following else len(self._buffer)

    def _take(self) -> object:
        wanted = _CHUNK
        while True:
            try:
                value, end = self._decoder.raw_decode(self._buffer, self._start)
            except json.JSONDecodeError as error:
                if not _is_cut_off(error, self._buffer):
                    raise
                if len(self._buffer) - self._start > _VALUE_MAX:
                    raise _OversizedError(f"is an item of more than {_VALUE_MAX:,} characters") from None
                if not self._grow(wanted):
                    raise
            else:
                if end < len(self._buffer) or not self._grow(wanted):  # a number may go on beyond the window
                    self._start = end
                    return value
            wanted = min(wanted * 2, _VALUE_MAX)  # so that a long value is not decoded over and over

    def _grow(self, characters: int) -> bool:
        more = self._text.read(characters)
        self._buffer = self._buffer[self._start :] + more
        self._start = 0
        return bool(more)
