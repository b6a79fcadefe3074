"""Progress on a terminal. Where standard error is none, nothing is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from nomemory.importing.files import STDIN, Source
from nomemory.importing.upload import Tally


@contextmanager
def importing(source: Source, console: Console) -> Iterator[Callable[[Tally], None]]:
    """Show how much of a file has been imported; the value is to be called after each stream."""
    with _progress(console, "{task.fields[sent]:,} messages") as progress:
        label = "standard input" if source.name == STDIN else Path(source.name).name
        task = progress.add_task(label, total=source.size, sent=0)
        yield lambda tally: progress.update(task, completed=source.consumed, sent=tally.sent)


@contextmanager
def catching_up(console: Console) -> Iterator[Callable[[int], None]]:
    """Show how many messages the indexes still lack; the value is to be called with their number."""
    with _progress(console, "{task.fields[left]:,} to go") as progress:
        task = progress.add_task("Indexing", total=None, left=0)
        most = 0

        def tell(left: int) -> None:
            nonlocal most
            most = max(most, left)
            progress.update(task, total=most or 1, completed=most - left if most else 1, left=left)

        yield tell


@contextmanager
def moving(console: Console) -> Iterator[Callable[[int, int], None]]:
    """Show how many messages have been copied; the value is to be called with that, and how many the log has."""
    with _progress(console, "{task.fields[copied]:,} messages") as progress:
        task = progress.add_task("Copying", total=None, copied=0)
        yield lambda copied, messages: progress.update(task, total=messages or 1, completed=copied, copied=copied)


def _progress(console: Console, figure: str) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn(figure),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
