"""Where the figures of a benchmark go: a file for programs, pictures for pages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from nomemory.evaluation.json_file import json_file_option, write_json
from nomemory.evaluation.quality_chart import Sets, draw

Command = Callable[..., None]


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
