"""`nomemory users`."""

from __future__ import annotations

import click

from nomemory.cli.connection import connect
from nomemory.cli.options import output_option, paging_options
from nomemory.cli.output import Output
from nomemory.cli.paging import Paging, Part, read
from nomemory.cli.target import Target, target_option
from nomemory.v1 import query_service_pb2


@click.command("users")
@paging_options("users")
@output_option
@target_option
def users(*, paging: Paging, output: Output, target: Target) -> None:
    """Show the users who have messages, by their ids. A key needs the scope `admin`."""
    with connect(target) as client:

        def fetch(page_size: int, cursor: str) -> Part[query_service_pb2.UserSummary]:
            page = client.list_users(page_size=page_size, cursor=cursor)
            return Part(page.users, page.next_cursor)

        found = read(fetch, paging)
    output.users(found.items)
    if found.next_cursor:
        output.more(found.next_cursor)
