"""Which questions a benchmark asks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from nomemory.evaluation.labelled_file import LabelledDataError
from nomemory.evaluation.labelled_set import LabelledSet, read_sets

Command = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Selection:
    """Questions of a folder of sets.

    Attributes:
        data: the folder.
        sets: names of sets; empty: all.
        users: whom the questions are about; empty: all.
        limit: most questions of each set; 0: all.
    """

    data: Path
    sets: Sequence[str]
    users: Sequence[str]
    limit: int

    def read(self) -> list[LabelledSet]:
        """Read the sets that have such questions, with the messages of everybody.

        Raises:
            LabelledDataError: a set is wrong, or there is no such question.
        """
        chosen = [one.of(self.users).thinned(self.limit) for one in read_sets(self.data, self.sets)]
        if self.users and not any(one.questions for one in chosen):
            raise LabelledDataError([f"{self.data} has no question about {', '.join(self.users)}"])
        return [one for one in chosen if one.questions]


def listed(_: click.Context, __: click.Parameter, text: str) -> list[str]:
    """Read names that are parted by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def selection_options(command: Command) -> Command:
    """Add --data, --sets, --users and --limit, and give the command its `selection`."""

    @click.option(
        "--data",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        required=True,
        help="Folder of the sets.",
    )
    @click.option("--sets", callback=listed, default="", help="The sets to use, parted by commas. Default: all.")
    @click.option("--users", callback=listed, default="", help="Ask about these only, parted by commas. Default: all.")
    @click.option(
        "--limit", type=click.IntRange(min=0), default=0, help="Questions of each set, spread over it. 0: all."
    )
    @functools.wraps(command)
    def chosen(*, data: Path, sets: Sequence[str], users: Sequence[str], limit: int, **others: object) -> None:
        command(selection=Selection(data, sets, users, limit), **others)

    return chosen
