"""Commands that read messages, conversations, users and status."""

from __future__ import annotations

from functools import partial
from typing import Final

import click

from nomemory.cli.connection import client_option
from nomemory.cli.options import (
    Paging,
    content_output_option,
    filter_options,
    output_option,
    paging_options,
    user_option,
)
from nomemory.cli.output import MessageCount, Output
from nomemory.client.messages import FilterOptions
from nomemory.client.sync import Client

_TRUNCATED: Final = "The response reached its size limit and has fewer messages than requested."


@click.command("list")
@user_option
@filter_options
@paging_options("messages")
@click.option("--oldest-first", is_flag=True, help="Sort by time, oldest first.")
@content_output_option
@client_option
def list_messages(
    *, user: str, filters: FilterOptions, paging: Paging, oldest_first: bool, output: Output, client: Client
) -> None:
    """List messages by time, newest first by default. Times are in UTC."""
    total, cursor = 0, ""
    for page in paging.fetch_pages(partial(client.list_messages, user, oldest_first=oldest_first, **filters)):
        output.show(page)
        total, cursor = total + len(page.items), page.next_cursor
    if not total:
        output.show_no_results()
    if cursor:
        output.show_cursor(cursor)


@click.command("search")
@click.argument("query")
@user_option
@filter_options
@paging_options("messages")
@content_output_option
@client_option
def search_lexical(
    *, query: str, user: str, filters: FilterOptions, paging: Paging, output: Output, client: Client
) -> None:
    """Search for words and exact phrases, best match first.

    QUERY supports words, "phrases", AND, OR, NOT, - and parentheses. Quote QUERY for the shell:

        nomemory search '"不吃辣" AND 火锅' --user ann
    """
    total, cursor, behind, truncated = 0, "", False, False
    for page in paging.fetch_pages(partial(client.lexical_search, user, query, snippet_chars=0, **filters)):
        output.show(page)
        total, cursor, behind = total + len(page.items), page.next_cursor, behind or page.index_lagging
        truncated = truncated or page.truncated
    if cursor:
        output.show_cursor(cursor)
    if truncated:
        output.show_notice("Only part of the matching messages was ranked. Add terms or filters to rank the others.")
    _notify_incomplete_results(output, has_results=bool(total), behind=behind, search=" for lexical search")


@click.command("semantic")
@click.argument("text")
@user_option
@filter_options
@click.option("--top-k", type=click.IntRange(1, 200), default=20, show_default=True, help="Maximum number of messages.")
@click.option("--min-score", type=click.FloatRange(-1, 1), help="Minimum cosine similarity.")
@content_output_option
@client_option
def search_semantic(
    *, text: str, user: str, filters: FilterOptions, top_k: int, min_score: float | None, output: Output, client: Client
) -> None:
    """Search for messages with a similar meaning, best match first. The score is the cosine similarity."""
    reply = client.semantic_search(user, text, top_k=top_k, min_score=min_score, **filters)
    output.show(reply)
    if reply.truncated:
        output.show_notice(_TRUNCATED)
    _notify_incomplete_results(
        output, has_results=bool(reply.items), behind=reply.index_lagging, search=" for semantic search"
    )


@click.command("hybrid")
@click.argument("question")
@user_option
@filter_options
@click.option("--top-k", type=click.IntRange(1, 200), default=20, show_default=True, help="Maximum number of messages.")
@click.option("--explain", is_flag=True, help="Show the components of each score.")
@content_output_option
@client_option
def search_hybrid(
    *, question: str, user: str, filters: FilterOptions, top_k: int, explain: bool, output: Output, client: Client
) -> None:
    """Search for messages that answer a question, best match first.

    The ranking combines lexical and semantic search, the speaker and neighboring messages.
    """
    reply = client.hybrid_search(user, question, top_k=top_k, explain=explain, **filters)
    output.show(reply)
    if reply.truncated:
        output.show_notice(_TRUNCATED)
    if reply.semantic_unavailable:
        output.show_notice("Lexical search only: the server has no embedder, or the embedder is unavailable.")
    _notify_incomplete_results(output, has_results=bool(reply.items), behind=reply.index_lagging)


def _notify_incomplete_results(output: Output, *, has_results: bool, behind: bool, search: str = "") -> None:
    """Report that nothing was found, or that some messages are not indexed yet."""
    if has_results and behind:
        output.show_notice(f"Some of this user's messages are not indexed{search} yet. See `nomemory status`.")
    elif behind:
        output.show_notice("No messages found. Some messages are still being indexed; see `nomemory status`.")
    elif not has_results:
        output.show_no_results()


@click.command("neighbors")
@click.argument("message_id")
@user_option
@click.option(
    "--before",
    type=click.IntRange(0, 200),
    default=20,
    show_default=True,
    help="Maximum number of messages before MESSAGE_ID.",
)
@click.option(
    "--after",
    type=click.IntRange(0, 200),
    default=0,
    show_default=True,
    help="Maximum number of messages after MESSAGE_ID.",
)
@content_output_option
@client_option
def show_neighbors(*, message_id: str, user: str, before: int, after: int, output: Output, client: Client) -> None:
    """Show the messages before and after a message, oldest first. Times are in UTC."""
    reply = client.neighbors(user, message_id, before=before, after=after)
    output.show(reply)
    if reply.truncated_before or reply.truncated_after:
        output.show_notice(_TRUNCATED)


@click.command("conversations")
@user_option
@paging_options("conversations")
@output_option
@client_option
def list_conversations(*, user: str, paging: Paging, output: Output, client: Client) -> None:
    """List a user's conversations, most recently active first. Times are in UTC.

    Messages without a conversation id are not included.
    """
    reply = paging.fetch_all_items(partial(client.list_conversations, user), "conversations")
    output.show(reply)
    if reply.next_cursor:
        output.show_cursor(reply.next_cursor)


@click.command("users")
@paging_options("users")
@output_option
@client_option
def list_users(*, paging: Paging, output: Output, client: Client) -> None:
    """List the users who have messages, by id. Requires the scope `admin`."""
    reply = paging.fetch_all_items(client.list_users, "users")
    output.show(reply)
    if reply.next_cursor:
        output.show_cursor(reply.next_cursor)


@click.command("count")
@user_option
@filter_options
@output_option
@client_option
def count_messages(*, user: str, filters: FilterOptions, output: Output, client: Client) -> None:
    """Count a user's messages."""
    output.show(MessageCount(client.count_messages(user, **filters)))


@click.command("status")
@click.option(
    "--user",
    default="",
    metavar="USER",
    envvar="NOMEMORY_USER",
    show_envvar=True,
    help="Count only messages of this user.",
)
@output_option
@client_option
def show_status(*, user: str, output: Output, client: Client) -> None:
    """Show the size of the message log and the progress of the indexes."""
    output.show(client.status(user))


@click.command("info")
@output_option
@client_option
def show_server_info(*, output: Output, client: Client) -> None:
    """Show the server's version, features, embedding model and limits."""
    output.show(client.server_info())
