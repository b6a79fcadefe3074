"""`nomemory list`."""

from __future__ import annotations

import click

from nomemory.cli.connection import connect
from nomemory.cli.options import content_output_option, narrowing_options, paging_options, user_option
from nomemory.cli.output import Output
from nomemory.cli.paging import Paging, follow
from nomemory.cli.target import Target, target_option
from nomemory.client.options import Narrowing
from nomemory.v1 import query_service_pb2


@click.command("list")
@user_option
@narrowing_options
@paging_options("messages")
@click.option("--oldest-first", is_flag=True, help="Begin with the oldest.")
@content_output_option
@target_option
def list_(
    *, user: str, narrowing: Narrowing, paging: Paging, oldest_first: bool, output: Output, target: Target
) -> None:
    """Show messages by time, newest first unless told otherwise. Times are UTC."""
    with connect(target) as client:

        def fetch(page_size: int, cursor: str) -> query_service_pb2.ListMessagesResponse:
            return client.list_messages(
                user, page_size=page_size, cursor=cursor, oldest_first=oldest_first, **narrowing
            )

        found, cursor = 0, ""
        for page in follow(fetch, paging):
            output.messages(page.items)
            found, cursor = found + len(page.items), page.next_cursor
    if not found:
        output.nothing()
    if cursor:
        output.more(cursor)
