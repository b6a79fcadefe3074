"""`nomemory doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from nomemory.cli.configuration import load_settings
from nomemory.cli.connection import Target, target_option
from nomemory.cli.doctor.chat_model import check_chat_model
from nomemory.cli.doctor.data import check_data, check_postgres, repair_data
from nomemory.cli.doctor.installation import check_embedder, check_sqlite, check_storage
from nomemory.cli.doctor.server import check_server
from nomemory.cli.doctor.vectors import check_vectors
from nomemory.cli.options import output_option
from nomemory.cli.output import CheckResult, Diagnosis, Output
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.settings import Settings


@click.command("doctor")
@click.option("--data", type=click.Path(path_type=Path), help="The server's data directory.")
@click.option(
    "--repair",
    is_flag=True,
    help="Correct the message counts, and delete an inconsistent lexical index, which the server rebuilds. The server "
    "must not be running.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Accept a message log that has lost changes or is missing. The server must not be running.",
)
@click.option(
    "--delete-damaged", is_flag=True, help="Delete the messages with wrong checksums. The server must not be running."
)
@target_option
@output_option
def run_doctor(
    *, data: Path | None, repair: bool, accept_loss: bool, delete_damaged: bool, target: Target, output: Output
) -> None:
    """Check the machine, the data directory and the server, and suggest fixes.

    Without options, the command changes nothing. --repair corrects the message counts and deletes an inconsistent
    lexical index, which the server rebuilds; it deletes no messages. The server repairs the vector index at startup. If
    recalls use a chat model, the command sends it one small request. The exit status is 1 if a check fails. If the
    server is not running, the command reports a warning.
    """
    settings = load_settings(data=data)
    if repair or accept_loss or delete_damaged:
        for line in repair_data(settings, repair=repair, accept_loss=accept_loss, delete_damaged=delete_damaged):
            output.show_notice(line)
    checks = list(_run_checks(settings, target))
    output.show(Diagnosis(checks))
    if any(check.state == "fail" for check in checks):
        raise click.exceptions.Exit(1)


def _run_checks(settings: Settings, target: Target) -> Iterator[CheckResult]:
    yield check_sqlite()
    yield from check_storage(settings.server.data)
    if settings.server.database_url is None:
        checks = list(check_data(DataDirectory(settings.server.data)))
        yield from checks
        if not any(check.state == "fail" for check in checks):  # a damaged message log cannot be compared
            yield from check_vectors(settings)
    else:
        yield from check_postgres(settings)
    yield check_embedder(settings)
    yield from check_chat_model(settings)
    yield from check_server(target)
