"""The consoles: what people read goes through one of these two. Importing this loads rich."""

from __future__ import annotations

import os

from rich.console import Console


class _Terminal(Console):
    """A console that leaves a broken pipe to the program, and takes no text for markup.

    A pipe, and any terminal while NO_COLOR is set, gets plain text.
    """

    def __init__(self, *, stderr: bool) -> None:
        colours = None if os.environ.get("NO_COLOR") else "auto"
        super().__init__(stderr=stderr, color_system=colours, highlight=False, markup=False, emoji=False)  # type: ignore[arg-type]  # rich's literals, narrowed by the condition

    def on_broken_pipe(self) -> None:
        """Let it rise: the program ends quietly then."""
        raise BrokenPipeError


def stdout_console() -> Console:
    """Return the console for answers."""
    return _Terminal(stderr=False)


def stderr_console() -> Console:
    """Return the console for progress and notices."""
    return _Terminal(stderr=True)
