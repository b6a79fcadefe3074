"""`nomemory export`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import click

from nomemory.cli.connection import client_option
from nomemory.cli.json_lines import build_message_record
from nomemory.cli.options import PAGE_MAX, filter_options, output_option
from nomemory.cli.output import ExportSummary, Output
from nomemory.cli.terminal import encode_json_line, encode_utf8_line
from nomemory.client.messages import FilterOptions
from nomemory.client.sync import Client
from nomemory.v1 import message_pb2


@click.command("export")
@click.option(
    "--user",
    metavar="USER",
    envvar="NOMEMORY_USER",
    show_envvar=True,
    help="User id. Default: all users, which requires the scope `admin`.",
)
@filter_options
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Output file, created when the export is complete. Default: standard output.",
)
@output_option
@client_option
def export_messages(
    *, user: str | None, filters: FilterOptions, out: Path | None, output: Output, client: Client
) -> None:
    """Export messages as JSON Lines, oldest first, user by user, for `nomemory import`.

    Embeddings supplied with messages are not exported. With --out, a summary is written to standard output.
    """
    counts = Counter[str]()
    messages = _read_messages(client, user, filters, counts)
    if out is None:
        for message in messages:
            click.echo(encode_json_line(build_message_record(message)))
        return
    with _open_atomically(out) as file:
        file.writelines(encode_utf8_line(build_message_record(message)) for message in messages)
    output.show(ExportSummary(str(out), len(counts), counts.total()))


def _read_messages(
    client: Client, user: str | None, filters: FilterOptions, counts: Counter[str]
) -> Iterator[message_pb2.ChatMessage]:
    """Yield the messages of one user or all users, and count them by user."""
    users = [user] if user else (entry.user_id for entry in client.iter_users(page_size=PAGE_MAX))
    for user_id in users:
        for batch in client.export_messages(user_id, **filters):
            counts.update(message.user_id for message in batch.messages)
            yield from batch.messages


@contextmanager
def _open_atomically(path: Path) -> Iterator[TextIO]:
    """Open a temporary file that replaces the file on success; on failure, an existing file is unchanged."""
    temporary = path.with_name(f"{path.name}.part")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
