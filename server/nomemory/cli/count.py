"""`nomemory count`."""

from __future__ import annotations

import click

from nomemory.cli.connection import connect
from nomemory.cli.options import narrowing_options, output_option, user_option
from nomemory.cli.output import Output
from nomemory.cli.target import Target, target_option
from nomemory.client.options import Narrowing


@click.command("count")
@user_option
@narrowing_options
@output_option
@target_option
def count(*, user: str, narrowing: Narrowing, output: Output, target: Target) -> None:
    """Count a user's messages."""
    with connect(target) as client:
        output.count(client.count_messages(user, **narrowing))
