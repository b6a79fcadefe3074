"""`nomemory context`."""

from __future__ import annotations

from typing import Any

import click

from nomemory.cli.connection import client_option
from nomemory.cli.json_lines import JsonLines
from nomemory.cli.options import TIME_FORMATS, output_option, time_option, user_option
from nomemory.cli.output import Output
from nomemory.cli.terminal import escape_json
from nomemory.client.messages import Turn
from nomemory.client.sync import Client


@click.command("context")
@click.argument("text", required=False)
@user_option
@click.option("--conversation", "conversation_id", default="", metavar="ID", help="The current conversation.")
@click.option(
    "--exclude-conversation",
    "exclude_conversation_ids",
    metavar="ID",
    multiple=True,
    help="Exclude related messages of this conversation. May be repeated up to 15 times.",
)
@click.option(
    "--max-tokens",
    type=click.IntRange(min=100, max=32_000),
    default=2_000,
    show_default=True,
    help="Maximum size of the text, in estimated tokens.",
)
@time_option("--now", f"The reference time: {TIME_FORMATS}. Default: the current time.")
@click.option("--time-zone", default="", metavar="NAME", help="Time zone of the dates, such as Asia/Shanghai.")
@output_option
@client_option
def show_context(*, text: str | None, user: str, output: Output, client: Client, **options: Any) -> None:  # noqa: ANN401 - the options of the client method
    """Show the messages for an assistant's prompt: the current conversation, and messages related to TEXT.

    TEXT is the latest turn of the user. Default: the latest messages of the conversation.
    """
    turns: list[Turn] = [{"role": "user", "text": text}] if text else []
    reply = client.build_context(turns, user_id=user, **options)
    if isinstance(output, JsonLines):
        output.show(reply)
    elif reply.text:
        click.echo(escape_json(reply.text))
    else:
        output.show_no_results()
    if reply.index_lagging:
        output.show_notice("Some of this user's messages are not indexed yet. See `nomemory status`.")
