"""The consoles: what people read goes through one of these two.

Text from elsewhere, made safe for a terminal: what was said must not move the cursor or reorder the line.
"""

from __future__ import annotations

import codecs
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Final

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.control import Control
from rich.segment import Segment


class Terminal(Console):
    """A console that leaves a broken pipe to the program, takes no text for markup, and ends no line with blanks.

    A pipe, and any terminal while NO_COLOR is set, gets plain text.

    Args:
        file: where to write, for other than standard output.
        stderr: write to standard error.
        width: the columns; None: as many as the terminal has.
    """

    def __init__(self, file: IO[str] | None = None, *, stderr: bool = False, width: int | None = None) -> None:
        colours = None if os.environ.get("NO_COLOR") else "auto"
        super().__init__(
            file=file,
            stderr=stderr,
            width=width,
            color_system=colours,  # type: ignore[arg-type]  # rich's literals, narrowed by the condition
            highlight=False,
            markup=False,
            emoji=False,
        )
        self.push_render_hook(_Trimming())

    def on_broken_pipe(self) -> None:
        """Let it rise: the program ends quietly then."""
        raise BrokenPipeError


def stdout_console() -> Console:
    """Return the console for answers."""
    return Terminal()


def stderr_console() -> Console:
    """Return the console for progress and notices."""
    return Terminal(stderr=True)


class _Trimming(RenderHook):
    """Takes the blanks that fill up a table or a margin off the ends of lines."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [one if isinstance(one, Control) else _Trimmed(one) for one in renderables]


@dataclass(frozen=True, slots=True)
class _Trimmed:
    renderable: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        return _trimmed(console.render(self.renderable, options))


def _trimmed(segments: Iterable[Segment]) -> Iterator[Segment]:
    line: list[Segment] = []
    for segment in segments:
        *ended, rest = [segment.text] if segment.control else segment.text.split("\n")
        for text in ended:
            yield from _without_blanks([*line, Segment(text, segment.style)])
            yield Segment.line()
            line = []
        if rest:
            line.append(Segment(rest, segment.style, segment.control))
    yield from line


def _without_blanks(line: list[Segment]) -> list[Segment]:
    while line and not line[-1].control:
        last = line.pop()
        if text := last.text.rstrip(" "):
            return [*line, Segment(text, last.style)]
    return line


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


def json_block(block: str) -> str:
    """Return a text whose only odd characters stand in JSON in the same way, with its lines kept."""
    shown = escaped(block)
    return shown if _is_utf8(sys.stdout.encoding) else "".join(map(_in_ascii, shown))


def _in_ascii(char: str) -> str:
    return char if char.isascii() else json.dumps(char)[1:-1]


def _is_utf8(encoding: str | None) -> bool:
    return codecs.lookup(encoding or "ascii").name == "utf-8"
