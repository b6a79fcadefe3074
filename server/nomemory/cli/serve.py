"""`nomemory serve`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from nomemory.cli.configuration import LOG_LEVELS, configured
from nomemory.server.runtime.settings.group import PREFIX
from nomemory.server.runtime.stderr import only_the_log
from nomemory.server.runtime.wiring.garbage_collection import loading

_TERMINAL_DEFAULTS: Final[Mapping[str, str | bool]] = {"log_level": "warning", "audit": False}
"""Defaults where standard error is a terminal: nobody keeps what it shows."""


@click.command("serve")
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Directory of the log and the indexes.")
@click.option("--listen", metavar="HOST:PORT", help="Where to serve; port 0 picks a free one.")
@click.option("--http", metavar="HOST:PORT", help="Where to serve HTTP and JSON, too; not served by default.")
@click.option("--inspect", is_flag=True, default=None, help="Serve the inspector over HTTP, too: a page that reads.")
@click.option("--metrics", metavar="HOST:PORT", help="Where to serve metrics; with --http they are there anyway.")
@click.option("--log-level", type=click.Choice(LOG_LEVELS), help="Least level to log.")
@click.option("--recall-only", is_flag=True, help="Keep nothing: serve recalls over the server that --query names.")
@click.option("--query", "upstream", metavar="HOST:PORT", help="With --recall-only: the server to read from.")
def serve(*, recall_only: bool, upstream: str | None, **options: Path | str | bool | None) -> None:
    """Run the server until it is told to stop.

    Every setting can also be given as an environment variable, NOMEMORY_ and its name in capitals (docs/settings.md);
    an option overrides it. Where standard error is a terminal, there are warnings in plain lines, and no audit;
    elsewhere the log is JSON.
    """
    if recall_only != bool(upstream):
        raise click.UsageError("--recall-only and --query go together.")
    if sys.stderr.isatty():
        options |= {name: default for name, default in _TERMINAL_DEFAULTS.items() if _is_unset(name, options)}
    settings = configured(recall_upstream=upstream, **options)
    with only_the_log(settings.server.log_level):
        with loading():
            from nomemory.cli import startup  # noqa: PLC0415 - the engines load only in the process that serves

        startup.run(settings)


def _is_unset(name: str, options: Mapping[str, object]) -> bool:
    return options.get(name) is None and f"{PREFIX}{name.upper()}" not in os.environ
