"""Command line options of the benchmarks: selection of questions and output files."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from evaluation.charts import Sets, write_chart
from evaluation.labeled_file import LabeledDataError
from evaluation.labeled_set import LabeledSet, read_sets

Command = Callable[..., None]


@dataclass(frozen=True, slots=True)
class QuestionSelection:
    """A selection of labeled questions.

    Attributes:
        data: folder of the labeled sets.
        sets: names of the sets; empty: all.
        users: user ids of the questions; empty: all.
        limit: maximum number of questions per set; 0: all.
    """

    data: Path
    sets: Sequence[str]
    users: Sequence[str]
    limit: int

    def read_sets(self) -> list[LabeledSet]:
        """Read the sets that have selected questions, with the messages of all users.

        Raises:
            LabeledDataError: a set is invalid, or no question is selected.
        """
        selected = [
            item.restrict_to_users(self.users).limit_questions(self.limit) for item in read_sets(self.data, self.sets)
        ]
        if self.users and not any(item.questions for item in selected):
            raise LabeledDataError([f"{self.data}: no questions for the users {', '.join(self.users)}"])
        return [item for item in selected if item.questions]


def parse_comma_separated(_: click.Context, __: click.Parameter, text: str) -> list[str]:
    """Parse a comma-separated list of names."""
    return [name.strip() for name in text.split(",") if name.strip()]


def add_selection_options(command: Command) -> Command:
    """Add the options --data, --sets, --users and --limit, and pass them to the command as `selection`."""

    @click.option(
        "--data",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        required=True,
        help="Folder of the labeled sets.",
    )
    @click.option(
        "--sets",
        callback=parse_comma_separated,
        default="",
        help="Names of the sets, separated by commas. Default: all.",
    )
    @click.option(
        "--users", callback=parse_comma_separated, default="", help="Ids of users, separated by commas. Default: all."
    )
    @click.option(
        "--limit",
        type=click.IntRange(min=0),
        default=0,
        help="Maximum number of questions per set, evenly spaced. 0: all.",
    )
    @functools.wraps(command)
    def wrapper(*, data: Path, sets: Sequence[str], users: Sequence[str], limit: int, **others: object) -> None:
        command(selection=QuestionSelection(data, sets, users, limit), **others)

    return wrapper


def _require_parent_folder(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    """Reject an output file whose folder does not exist, before the measurement starts."""
    if path and not path.parent.is_dir():
        raise click.BadParameter(f"the folder {path.parent} does not exist.")
    return path


json_file_option = click.option(
    "--json",
    "out",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    callback=_require_parent_folder,
    help="Write the results to this JSON file.",
)


def write_json(out: Path | None, figures: Mapping[str, Any]) -> None:
    """Write figures as JSON, unless `out` is None."""
    if out:
        out.write_text(json.dumps(figures, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class OutputPaths:
    """Paths to which a benchmark writes its results.

    Attributes:
        file: JSON file of the figures; None: not written.
        charts: folder of the charts; None: not drawn.
    """

    file: Path | None
    charts: Path | None

    def write_results(self, sets: Sets, extra: Mapping[str, Any]) -> None:
        """Write the figures of the sets, and the values of `extra` that are not empty."""
        if self.charts:
            write_chart(sets, self.charts)
        write_json(self.file, {"sets": sets, **{name: figures for name, figures in extra.items() if figures}})


def add_destination_options(command: Command) -> Command:
    """Add the options --json and --charts, and pass them to the command as `destination`."""

    @json_file_option
    @click.option(
        "--charts",
        type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
        metavar="FOLDER",
        help="Write the charts to this folder. The documentation uses docs/charts.",
    )
    @functools.wraps(command)
    def wrapper(*, out: Path | None, charts: Path | None, **others: object) -> None:
        command(destination=OutputPaths(out, charts), **others)

    return wrapper
