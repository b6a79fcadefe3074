"""The consoles: what people read goes through one of these two."""

from __future__ import annotations

from rich.console import Console


class Terminal(Console):
    """A console that leaves a broken pipe to the program, and takes no text for markup."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)

    def on_broken_pipe(self) -> None:
        """Let it rise: the program ends quietly then."""
        raise BrokenPipeError


def stdout_console() -> Console:
    """Return the console for answers."""
    return Terminal()


def stderr_console() -> Console:
    """Return the console for progress and notices."""
    return Terminal(stderr=True)
