"""`nomemory doctor`."""

from __future__ import annotations

import itertools
from pathlib import Path

import click

from nomemory.cli.configuration import configured
from nomemory.cli.doctor.embedder import check_embedder
from nomemory.cli.doctor.environment import check_packages, check_python, check_sqlite
from nomemory.cli.doctor.server import check_server
from nomemory.cli.doctor.storage import check_storage
from nomemory.cli.options import output_option
from nomemory.cli.output import Output
from nomemory.cli.target import Target, target_option


@click.command("doctor")
@click.option("--data", type=click.Path(path_type=Path), help="The server's data directory.")
@target_option
@output_option
def doctor(*, data: Path | None, target: Target, output: Output) -> None:
    """Check the installation, the data directory and the server, and say what to do.

    Changes nothing. The exit code is 1 if a check fails; a server that is not running is only a warning.
    """
    settings = configured(data=data)
    checks = list(
        itertools.chain(
            [check_python()],
            check_packages(),
            [check_sqlite()],
            check_storage(settings.server.data),
            [check_embedder(settings)],
            check_server(target),
        )
    )
    output.checks(checks)
    if any(check.state == "fail" for check in checks):
        raise click.exceptions.Exit(1)
