"""Rich consoles for standard output and standard error. Importing this module loads rich."""

from __future__ import annotations

import os

from rich.console import Console


class _PlainConsole(Console):
    """A console that does not interpret markup and does not handle broken pipes.

    Output is plain text if it goes to a pipe or if NO_COLOR is set.
    """

    def __init__(self, *, stderr: bool) -> None:
        colors = None if os.environ.get("NO_COLOR") else "auto"
        super().__init__(stderr=stderr, color_system=colors, highlight=False, markup=False, emoji=False)  # type: ignore[arg-type]  # rich's literals, narrowed by the condition

    def on_broken_pipe(self) -> None:
        """Raise the `BrokenPipeError`, so that the command can exit quietly."""
        raise BrokenPipeError


def create_stdout_console() -> Console:
    """Return the console for results."""
    return _PlainConsole(stderr=False)


def create_stderr_console() -> Console:
    """Return the console for progress and notices."""
    return _PlainConsole(stderr=True)
