"""`nomemory delete` and `nomemory erase`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nomemory.cli.connection import client_option
from nomemory.cli.options import narrowing_options, output_option, user_option
from nomemory.cli.output import Output
from nomemory.cli.terminal import counted
from nomemory.client.messages import Narrowing
from nomemory.client.sync import Client


@click.command("delete")
@click.argument("message_ids", nargs=-1)
@user_option
@narrowing_options
@click.option("--yes", is_flag=True, help="Do not ask.")
@output_option
@client_option
def delete(
    *, message_ids: Sequence[str], user: str, narrowing: Narrowing, yes: bool, output: Output, client: Client
) -> None:
    """Delete messages. No read returns them any more.

    Name up to 1,000 by their ids, or by what holds for all of them; `nomemory erase` deletes everything of a user.
    """
    _check(message_ids, narrowing)
    what = counted(len(message_ids), "message") if message_ids else "all messages that these options admit"
    if not (yes or click.confirm(f"Delete {what} of {user}?", err=True)):
        raise click.ClickException("nothing was deleted.")
    output.show(client.delete(user, message_ids) if message_ids else client.delete_matching(user, **narrowing))


def _check(message_ids: Sequence[str], narrowing: Narrowing) -> None:
    if bool(message_ids) == any(value is not None for value in narrowing.values()):
        raise click.UsageError(
            "Give either ids of messages, or some of --since, --until, --role, --conversation, "
            "--exclude-conversation and --metadata. "
            "`nomemory erase` deletes everything of a user."
        )


@click.command("erase")
@click.option("--user", required=True, metavar="USER", help="Whom to erase. NOMEMORY_USER is not read.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output_option
@client_option
def erase(*, user: str, yes: bool, output: Output, client: Client) -> None:
    """Erase everything of a user, and show the receipt.

    No read returns anything of the user any more. The receipt says where bytes still are, and what removes them.
    """
    if not (yes or click.confirm(f"Erase everything of {user}?", err=True)):
        raise click.ClickException("nothing was erased.")
    output.show(client.erase_user(user))
