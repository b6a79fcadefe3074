"""Progress on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

_LINE_S = 10.0


@contextmanager
def progress(console: Console, label: str, noun: str) -> Iterator[Callable[[int, int, int], None]]:
    """Show how far something is; the value takes the number to show before the noun, what is done, and of how much."""
    shown = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn(f"{{task.fields[number]:,}} {noun}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with shown:
        task = shown.add_task(label, total=None, number=0)
        yield lambda number, done, total: shown.update(task, number=number, completed=done, total=total)


@contextmanager
def catching_up(console: Console) -> Iterator[Callable[[int], None]]:
    """Show how many messages the indexes still lack; the value is to be called with their number.

    Where there is no terminal, that is a line every ten seconds.
    """
    with progress(console, "Indexing", "to go") as tell:
        most, told = 1, time.monotonic()

        def tell_left(left: int) -> None:
            nonlocal most, told
            most = max(most, left)
            tell(left, most - left, most)
            if left and not console.is_terminal and time.monotonic() - told >= _LINE_S:
                told = time.monotonic()
                console.print(f"Indexing: {left:,} to go")

        yield tell_left
