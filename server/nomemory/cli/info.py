"""`nomemory info`."""

from __future__ import annotations

import click

from nomemory.cli.connection import connect
from nomemory.cli.options import output_option
from nomemory.cli.output import Output
from nomemory.cli.target import Target, target_option


@click.command("info")
@output_option
@target_option
def info(*, output: Output, target: Target) -> None:
    """Show the server's version, what it can do, its embedding model and how much it takes."""
    with connect(target) as client:
        output.server_info(client.server_info())
