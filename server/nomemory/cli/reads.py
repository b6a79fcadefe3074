"""The commands that read: `nomemory list`, `search`, `semantic`, `hybrid`, `neighbors` and what counts and lists."""

from __future__ import annotations

from functools import partial
from typing import Final

import click

from nomemory.cli.connection import client_option
from nomemory.cli.options import (
    Paging,
    content_output_option,
    narrowing_options,
    output_option,
    paging_options,
    user_option,
)
from nomemory.cli.output import Count, Output
from nomemory.client.messages import Narrowing
from nomemory.client.sync import Client

_CUT: Final = "The reply was cut at its size limit: there are fewer messages than asked for."


@click.command("list")
@user_option
@narrowing_options
@paging_options("messages")
@click.option("--oldest-first", is_flag=True, help="Begin with the oldest.")
@content_output_option
@client_option
def list_(
    *, user: str, narrowing: Narrowing, paging: Paging, oldest_first: bool, output: Output, client: Client
) -> None:
    """Show messages by time, newest first unless told otherwise. Times are UTC."""
    found, cursor = 0, ""
    for page in paging.follow(partial(client.list_messages, user, oldest_first=oldest_first, **narrowing)):
        output.show(page)
        found, cursor = found + len(page.items), page.next_cursor
    if not found:
        output.nothing()
    if cursor:
        output.more(cursor)


@click.command("search")
@click.argument("query")
@user_option
@narrowing_options
@paging_options("messages")
@content_output_option
@client_option
def search(*, query: str, user: str, narrowing: Narrowing, paging: Paging, output: Output, client: Client) -> None:
    """Find words and exact phrases, best first.

    QUERY takes words, "phrases", AND, OR, NOT, - and parentheses. Quote it for the shell:

        nomemory search '"不吃辣" AND 火锅' --user ann
    """
    found, cursor, behind, truncated = 0, "", False, False
    for page in paging.follow(partial(client.lexical_search, user, query, snippet_chars=0, **narrowing)):
        output.show(page)
        found, cursor, behind = found + len(page.items), page.next_cursor, behind or page.index_lagging
        truncated = truncated or page.truncated
    if cursor:
        output.more(cursor)
    if truncated:
        output.notice("More messages match than are ranked; narrow the query to rank the others.")
    _tell_what_is_missing(output, found=bool(found), behind=behind, by=" by their words")


@click.command("semantic")
@click.argument("text")
@user_option
@narrowing_options
@click.option("--top-k", type=click.IntRange(1, 200), default=20, show_default=True, help="How many messages to show.")
@click.option("--min-score", type=click.FloatRange(-1, 1), help="Leave out what is less near than this cosine.")
@content_output_option
@client_option
def semantic(
    *, text: str, user: str, narrowing: Narrowing, top_k: int, min_score: float | None, output: Output, client: Client
) -> None:
    """Find what means the same as a text, nearest first. The score is a cosine."""
    reply = client.semantic_search(user, text, top_k=top_k, min_score=min_score, **narrowing)
    output.show(reply)
    if reply.truncated:
        output.notice(_CUT)
    _tell_what_is_missing(output, found=bool(reply.items), behind=reply.index_lagging, by=" by meaning")


@click.command("hybrid")
@click.argument("question")
@user_option
@narrowing_options
@click.option("--top-k", type=click.IntRange(1, 200), default=20, show_default=True, help="How many messages to show.")
@click.option("--explain", is_flag=True, help="Show what each score is made of.")
@content_output_option
@client_option
def hybrid(
    *, question: str, user: str, narrowing: Narrowing, top_k: int, explain: bool, output: Output, client: Client
) -> None:
    """Find what answers a question, best first: by words, by meaning, by who spoke and by what stands around."""
    reply = client.hybrid_search(user, question, top_k=top_k, explain=explain, **narrowing)
    output.show(reply)
    if reply.truncated:
        output.notice(_CUT)
    if reply.semantic_unavailable:
        output.notice("Ranked by words alone: the server has no embedder, or it does not answer.")
    _tell_what_is_missing(output, found=bool(reply.items), behind=reply.index_lagging)


def _tell_what_is_missing(output: Output, *, found: bool, behind: bool, by: str = "") -> None:
    """Say that nothing was found, or that an index still lacks some messages."""
    if found and behind:
        output.notice(f"Some of this user's messages cannot be found{by} yet; nomemory status shows more.")
    elif behind:
        output.notice("No messages found yet: some are still being indexed; nomemory status shows how many.")
    elif not found:
        output.nothing()


@click.command("neighbors")
@click.argument("message_id")
@user_option
@click.option("--before", type=click.IntRange(0, 200), default=20, show_default=True, help="How many before it.")
@click.option("--after", type=click.IntRange(0, 200), default=0, show_default=True, help="How many after it.")
@content_output_option
@client_option
def neighbors(*, message_id: str, user: str, before: int, after: int, output: Output, client: Client) -> None:
    """Show the messages around one of them, oldest first. Times are UTC."""
    reply = client.neighbors(user, message_id, before=before, after=after)
    output.show(reply)
    if reply.truncated_before or reply.truncated_after:
        output.notice(_CUT)


@click.command("conversations")
@user_option
@paging_options("conversations")
@output_option
@client_option
def conversations(*, user: str, paging: Paging, output: Output, client: Client) -> None:
    """Show a user's conversations, the one with the latest message first. Times are UTC.

    Messages without a conversation are in none.
    """
    found = paging.whole(partial(client.list_conversations, user), "conversations")
    output.show(found)
    if found.next_cursor:
        output.more(found.next_cursor)


@click.command("users")
@paging_options("users")
@output_option
@client_option
def users(*, paging: Paging, output: Output, client: Client) -> None:
    """Show the users who have messages, by their ids. A key needs the scope `admin`."""
    found = paging.whole(client.list_users, "users")
    output.show(found)
    if found.next_cursor:
        output.more(found.next_cursor)


@click.command("count")
@user_option
@narrowing_options
@output_option
@client_option
def count(*, user: str, narrowing: Narrowing, output: Output, client: Client) -> None:
    """Count a user's messages."""
    output.show(Count(client.count_messages(user, **narrowing)))


@click.command("status")
@click.option(
    "--user", default="", metavar="USER", envvar="NOMEMORY_USER", show_envvar=True, help="Count only this user's."
)
@output_option
@client_option
def status(*, user: str, output: Output, client: Client) -> None:
    """Show what the log holds and how far the indexes are."""
    output.show(client.status(user))


@click.command("info")
@output_option
@client_option
def info(*, output: Output, client: Client) -> None:
    """Show the server's version, what it can do, its embedding model and how much it takes."""
    output.show(client.server_info())
