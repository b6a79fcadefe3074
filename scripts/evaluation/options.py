"""What a benchmark's command line takes: which questions it asks, and where its figures go."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from evaluation.charts import Sets, draw
from evaluation.labelled_file import LabelledDataError
from evaluation.labelled_set import LabelledSet, read_sets

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
        chosen = [item.of(self.users).thinned(self.limit) for item in read_sets(self.data, self.sets)]
        if self.users and not any(message.questions for message in chosen):
            raise LabelledDataError([f"{self.data} has no question about {', '.join(self.users)}"])
        return [message for message in chosen if message.questions]


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


def _in_a_folder(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    """Refuse, before minutes of work, a file that cannot be made after them."""
    if path and not path.parent.is_dir():
        raise click.BadParameter(f"there is no folder {path.parent}.")
    return path


json_file_option = click.option(
    "--json",
    "out",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    callback=_in_a_folder,
    help="Where to write the figures.",
)


def write_json(out: Path | None, figures: Mapping[str, Any]) -> None:
    """Write the figures, if there is a file to write them to."""
    if out:
        out.write_text(json.dumps(figures, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Destination:
    """A file and a folder; None: nobody wants it."""

    file: Path | None
    charts: Path | None

    def write(self, sets: Sets, more: Mapping[str, Any]) -> None:
        """Write what was measured of each set, and what else was measured."""
        if self.charts:
            draw(sets, self.charts)
        write_json(self.file, {"sets": sets, **{name: found for name, found in more.items() if found}})


def destination_options(command: Command) -> Command:
    """Add --json and --charts, and give the command its `destination`."""

    @json_file_option
    @click.option(
        "--charts",
        type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
        metavar="FOLDER",
        help="Where to draw the figures: docs/charts has those of the pages.",
    )
    @functools.wraps(command)
    def chosen(*, out: Path | None, charts: Path | None, **others: object) -> None:
        command(destination=Destination(out, charts), **others)

    return chosen
