"""`nomemory search`."""

from __future__ import annotations

import click

from nomemory.cli.connection import connect
from nomemory.cli.options import content_output_option, narrowing_options, paging_options, user_option
from nomemory.cli.output import Output
from nomemory.cli.paging import Paging, follow
from nomemory.cli.target import Target, target_option
from nomemory.client.hits import lexical_hits
from nomemory.client.options import Narrowing
from nomemory.v1 import query_service_pb2


@click.command("search")
@click.argument("query")
@user_option
@narrowing_options
@paging_options("messages")
@content_output_option
@target_option
def search(*, query: str, user: str, narrowing: Narrowing, paging: Paging, output: Output, target: Target) -> None:
    """Find words and exact phrases, best first.

    QUERY takes words, "phrases", AND, OR, NOT, - and parentheses. Quote it for the shell:

        nomemory search '"不吃辣" AND 火锅' --user ann
    """
    with connect(target) as client:

        def fetch(page_size: int, cursor: str) -> query_service_pb2.LexicalSearchResponse:
            return client.lexical_search(user, query, page_size=page_size, cursor=cursor, snippet_chars=0, **narrowing)

        found, cursor, behind = 0, "", False
        for page in follow(fetch, paging):
            output.lexical(lexical_hits(page))
            found, cursor, behind = found + len(page.items), page.next_cursor, behind or page.index_behind
    if cursor:
        output.more(cursor)
    if not found and behind:
        output.notice("No messages found yet: some are still being indexed; nomemory status shows how many.")
    elif not found:
        output.nothing()
    elif behind:
        output.notice("Some of this user's messages cannot be found by their words yet; nomemory status shows more.")
