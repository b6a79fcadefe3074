"""`nomemory serve`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from nomemory.cli.configuration import LOG_LEVELS, configured
from nomemory.server.composition.serving import loading
from nomemory.server.data_directory import DataDirectory, DataDirectoryBusyError
from nomemory.server.listen_address import ListenAddressError, http_address, parse_listen_address
from nomemory.server.processes.reserved_port import reserved
from nomemory.server.readers.readers import start_readers
from nomemory.server.settings import Settings
from nomemory.server.settings.group import PREFIX
from nomemory.server.standard_error import only_the_log

_FOR_PEOPLE: Final[Mapping[str, str | bool]] = {"log_level": "warning", "audit": False}
"""The settings on a terminal, which is no record of what was done."""


@click.command("serve")
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Directory of the log and the indexes.")
@click.option("--listen", metavar="HOST:PORT", help="Where to serve; port 0 picks a free one.")
@click.option("--http", metavar="HOST:PORT", help="Where to serve HTTP and JSON, too; not served by default.")
@click.option("--inspect", is_flag=True, default=None, help="Serve the inspector over HTTP, too: a page that reads.")
@click.option("--metrics", metavar="HOST:PORT", help="Where to serve metrics; with --http they are there anyway.")
@click.option("--log-level", type=click.Choice(LOG_LEVELS), help="Least level to log.")
@click.option("--workers", type=click.IntRange(1, 64), help="Processes that answer calls; one by default.")
@click.option("--recall-only", is_flag=True, help="Keep nothing: serve recalls over the server that --query names.")
@click.option("--query", "query_target", metavar="HOST:PORT", help="With --recall-only: the server to read from.")
def serve(
    *, workers: int | None, recall_only: bool, query_target: str | None, **given: Path | str | bool | None
) -> None:
    """Run the server until it is told to stop.

    Every setting can also be given as an environment variable, NOMEMORY_ and its name in capitals (docs/settings.md);
    an option overrides it. Where standard error is a terminal, there are warnings in plain lines, and no audit;
    elsewhere the log is JSON.
    """
    if recall_only != bool(query_target):
        raise click.UsageError("--recall-only and --query go together.")
    if recall_only and workers is not None:
        raise click.UsageError("A server that only recalls is one process: --workers does not go with --recall-only.")
    if sys.stderr.isatty():
        given |= {name: quiet for name, quiet in _FOR_PEOPLE.items() if _is_unsaid(name, given)}
    settings = configured(workers=workers, recall_query_target=query_target, **given)
    with only_the_log(settings.server.log_level):
        if settings.workers.count > 1:
            _refuse_what_is_taken(settings)
        readers = start_readers(settings)
        with loading():
            from nomemory.cli import startup  # noqa: PLC0415 - the engines load only in the process that serves

        startup.run(settings, readers)


def _is_unsaid(name: str, given: Mapping[str, object]) -> bool:
    return given.get(name) is None and f"{PREFIX}{name.upper()}" not in os.environ


def _refuse_what_is_taken(settings: Settings) -> None:
    """Look at the directory and the ports before processes are started, whose loading would have to be waited for.

    Raises:
        click.ClickException: another server has them.
    """
    try:
        if not settings.recall.query_target:
            DataDirectory(settings.server.data).refuse_busy()
        for address in filter(None, (settings.server.listen, http_address(settings), settings.metrics.listen)):
            with reserved(parse_listen_address(address)):
                pass
    except (DataDirectoryBusyError, ListenAddressError) as error:
        raise click.ClickException(str(error)) from None
