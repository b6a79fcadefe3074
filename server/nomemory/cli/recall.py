"""`nomemory recall`."""

from __future__ import annotations

from typing import Any

import click

from nomemory.cli.connection import client_option
from nomemory.cli.json_lines import JsonLines
from nomemory.cli.options import FORMS, content_output_option, role_option, time_option, user_option
from nomemory.cli.output import Output
from nomemory.cli.terminal import escaped
from nomemory.client import as_prompt
from nomemory.client.prompt_block import LEAST_TOKENS, MAX_TOKENS, PROMPT_MESSAGES
from nomemory.client.sync import Client
from nomemory.v1 import recall_service_pb2 as pb


@click.command("recall")
@click.argument("question")
@user_option
@time_option("--since", f"Look first at what was said at this time or later: {FORMS}.")
@time_option("--until", "Look first at what was said before this time; the same forms.")
@role_option("Look first at what this side said.")
@time_option("--now", "Ask as if it were this time; the same forms.")
@click.option("--time-zone", default="", metavar="NAME", help="The asker's time zone, such as Asia/Shanghai.")
@click.option("--conversation", "conversation_id", metavar="ID", help="Look at this conversation only.")
@click.option(
    "--exclude-conversation",
    "exclude_conversation_ids",
    metavar="ID",
    multiple=True,
    help="Read nothing of this conversation. Up to 16 of them.",
)
@click.option("--skill", default="", metavar="NAME", help="The recall skill to search with.")
@click.option("--explain", is_flag=True, help="Show why each step was taken, and the evidence.")
@click.option(
    "--as",
    "shape",
    type=click.Choice(["answer", "prompt"]),
    default="answer",
    show_default=True,
    help="`prompt`: the evidence as a block to paste into a prompt.",
)
@click.option(
    "--max-tokens",
    type=click.IntRange(min=LEAST_TOKENS),
    default=MAX_TOKENS,
    show_default=True,
    help="Most tokens of that block, by an estimate.",
)
@content_output_option
@client_option
def recall(
    *,
    question: str,
    user: str,
    explain: bool,
    shape: str,
    max_tokens: int,
    output: Output,
    client: Client,
    **asked: Any,  # noqa: ANN401 - what the client takes by the same names
) -> None:
    """Answer a question about a user from what was said, with a quote for every line."""
    if shape == "prompt" and isinstance(output, JsonLines):
        raise click.UsageError("--as prompt and --json cannot go together.")
    steps = []
    messages = PROMPT_MESSAGES if shape == "prompt" else 0
    for event in client.stream_recall(question, user_id=user, evidence_messages=messages, **asked):
        if event.HasField("step"):
            if explain:
                steps.append(event.step)
                output.step(event.step)
            continue
        event.result.trace.extend(steps)
        if shape == "prompt":
            block = as_prompt(event.result, max_tokens=max_tokens, question=question, time_zone=asked["time_zone"])
            click.echo(escaped(block))
        else:
            output.show(event.result, explain=explain)
        _notice_what_is_behind(event.result, output)


def _notice_what_is_behind(result: pb.RecallResponse, output: Output) -> None:
    if result.limits.index_lagging and result.verdict != pb.VERDICT_PENDING:
        output.notice("Some of this user's messages cannot be found yet; nomemory status shows more.")
