"""`nomemory erase`."""

from __future__ import annotations

import click

from nomemory.cli.connection import connect
from nomemory.cli.options import output_option
from nomemory.cli.output import Output
from nomemory.cli.target import Target, target_option


@click.command("erase")
@click.option("--user", required=True, metavar="USER", help="Whom to erase. NOMEMORY_USER is not read.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output_option
@target_option
def erase(*, user: str, yes: bool, output: Output, target: Target) -> None:
    """Erase everything of a user, and show the receipt.

    No read returns anything of the user any more. The receipt says where bytes still are, and what removes them.
    """
    if not (yes or click.confirm(f"Erase everything of {user}?", err=True)):
        raise click.ClickException("nothing was erased.")
    with connect(target) as client:
        output.erased(client.erase_user(user))
