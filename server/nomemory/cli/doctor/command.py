"""`nomemory doctor`."""

from __future__ import annotations

from pathlib import Path

import click

from nomemory.cli.configuration import load_settings
from nomemory.cli.connection import Target, target_option
from nomemory.cli.options import output_option
from nomemory.cli.output import Diagnosis, Output


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
    from nomemory.cli.doctor.checks import run_checks  # noqa: PLC0415 - imports most of the server
    from nomemory.cli.doctor.data import repair_data  # noqa: PLC0415 - as above

    settings = load_settings(data=data)
    if repair or accept_loss or delete_damaged:
        for line in repair_data(settings, repair=repair, accept_loss=accept_loss, delete_damaged=delete_damaged):
            output.show_notice(line)
    checks = list(run_checks(settings, target))
    output.show(Diagnosis(checks))
    if any(check.state == "fail" for check in checks):
        raise click.exceptions.Exit(1)
