"""Progress display of imports and indexing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

_PRINT_INTERVAL_S = 10.0


@contextmanager
def show_progress(console: Console, label: str, noun: str) -> Iterator[Callable[[int, int, int], None]]:
    """Show a progress bar.

    Yield a function that takes three numbers: the number to show before `noun`, and the completed and total units of
    the bar.
    """
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn(f"{{task.fields[number]:,}} {noun}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task(label, total=None, number=0)
        yield lambda number, done, total: bar.update(task, number=number, completed=done, total=total)


@contextmanager
def show_indexing_progress(console: Console) -> Iterator[Callable[[int], None]]:
    """Show how many messages are not indexed yet. Yield a function that updates this number.

    If standard error is not a terminal, a line is printed every ten seconds.
    """
    with show_progress(console, "Indexing", "pending") as update:
        total, last_print = 1, time.monotonic()

        def update_pending_count(pending: int) -> None:
            nonlocal total, last_print
            total = max(total, pending)
            update(pending, total - pending, total)
            if pending and not console.is_terminal and time.monotonic() - last_print >= _PRINT_INTERVAL_S:
                last_print = time.monotonic()
                console.print(f"Indexing: {pending:,} pending")

        yield update_pending_count
