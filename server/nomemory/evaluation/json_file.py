"""The file of figures for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click


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
