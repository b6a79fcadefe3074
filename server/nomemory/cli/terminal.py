"""The consoles: what people read goes through one of these two."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO

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
