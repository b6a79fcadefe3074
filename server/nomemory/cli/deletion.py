"""`nomemory delete` and `nomemory erase`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nomemory.cli.connection import client_option
from nomemory.cli.options import filter_options, output_option, user_option
from nomemory.cli.output import Output
from nomemory.cli.terminal import pluralize
from nomemory.client.messages import FilterOptions
from nomemory.client.sync import Client


@click.command("delete")
@click.argument("message_ids", nargs=-1)
@user_option
@filter_options
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@output_option
@client_option
def delete_messages(
    *, message_ids: Sequence[str], user: str, filters: FilterOptions, yes: bool, output: Output, client: Client
) -> None:
    """Delete messages by id or by filter.

    The command takes up to 1,000 ids, or at least one filter. Use `nomemory erase` to delete all data of a user.
    """
    _check_selection(message_ids, filters)
    selection = pluralize(len(message_ids), "message") if message_ids else "all messages that match these filters"
    if not (yes or click.confirm(f"Delete {selection} of {user}?", err=True)):
        raise click.ClickException("Cancelled. Nothing was deleted.")
    output.show(client.delete(user, message_ids) if message_ids else client.delete_matching(user, **filters))


def _check_selection(message_ids: Sequence[str], filters: FilterOptions) -> None:
    if bool(message_ids) == any(value is not None for value in filters.values()):
        raise click.UsageError(
            "Give either message ids or at least one of --since, --until, --role, --conversation, "
            "--exclude-conversation and --metadata. Use `nomemory erase` to delete all data of a user."
        )


@click.command("erase")
@click.option("--user", required=True, metavar="USER", help="User to erase. NOMEMORY_USER is ignored.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@output_option
@client_option
def erase_user(*, user: str, yes: bool, output: Output, client: Client) -> None:
    """Erase all data of a user, and show the receipt.

    The data can no longer be read. The receipt lists the storage that still contains bytes of the data, and when they
    are removed.
    """
    if not (yes or click.confirm(f"Erase all data of {user}?", err=True)):
        raise click.ClickException("Cancelled. Nothing was erased.")
    output.show(client.erase_user(user))
