"""`nomemory conversations`."""

from __future__ import annotations

import click

from nomemory.cli.connection import connect
from nomemory.cli.options import output_option, paging_options, user_option
from nomemory.cli.output import Output
from nomemory.cli.paging import Paging, Part, read
from nomemory.cli.target import Target, target_option
from nomemory.v1 import query_service_pb2


@click.command("conversations")
@user_option
@paging_options("conversations")
@output_option
@target_option
def conversations(*, user: str, paging: Paging, output: Output, target: Target) -> None:
    """Show a user's conversations, the one with the latest message first. Times are UTC.

    Messages without a conversation are in none.
    """
    with connect(target) as client:

        def fetch(page_size: int, cursor: str) -> Part[query_service_pb2.Conversation]:
            page = client.list_conversations(user, page_size=page_size, cursor=cursor)
            return Part(page.conversations, page.next_cursor)

        found = read(fetch, paging)
    output.conversations(found.items)
    if found.next_cursor:
        output.more(found.next_cursor)
