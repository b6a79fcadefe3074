"""`nomemory export`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import click

from nomemory.cli.connection import client_option
from nomemory.cli.json_lines import message_record
from nomemory.cli.options import PAGE_MAX, filter_options, output_option
from nomemory.cli.output import Exported, Output
from nomemory.cli.terminal import json_line, utf8_line
from nomemory.client.messages import FilterOptions
from nomemory.client.sync import Client
from nomemory.v1 import message_pb2


@click.command("export")
@click.option(
    "--user",
    metavar="USER",
    envvar="NOMEMORY_USER",
    show_envvar=True,
    help="Whose messages. Without one, those of all users; a key then needs the scope `admin`, too.",
)
@filter_options
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to write. It appears when it is complete. Default: standard output.",
)
@output_option
@client_option
def export(*, user: str | None, narrowing: FilterOptions, out: Path | None, output: Output, client: Client) -> None:
    """Write all messages as JSON Lines, oldest first, user by user: what `nomemory import` reads.

    The vectors that messages brought are not among their fields. With --out, the receipt goes to standard output.
    """
    tally = Counter[str]()
    messages = _messages(client, user, narrowing, tally)
    if out is None:
        for message in messages:
            click.echo(json_line(message_record(message)))
        return
    with _new_file(out) as file:
        file.writelines(utf8_line(message_record(message)) for message in messages)
    output.show(Exported(str(out), len(tally), tally.total()))


def _messages(
    client: Client, user: str | None, narrowing: FilterOptions, tally: Counter[str]
) -> Iterator[message_pb2.ChatMessage]:
    """Read the messages of one user or of all, and count them by their users."""
    users = [user] if user else (one.user_id for one in client.iter_users(page_size=PAGE_MAX))
    for name in users:
        for batch in client.export_messages(name, **narrowing):
            tally.update(message.user_id for message in batch.messages)
            yield from batch.messages


@contextmanager
def _new_file(path: Path) -> Iterator[TextIO]:
    """Open a file that takes its place when it is complete. What breaks off leaves what was there before."""
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
