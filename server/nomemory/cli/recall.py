"""`nomemory recall`."""

from __future__ import annotations

from typing import Any

import click

from nomemory.cli.connection import client_option
from nomemory.cli.json_lines import JsonLines
from nomemory.cli.options import TIME_FORMATS, content_output_option, role_option, time_option, user_option
from nomemory.cli.output import Output
from nomemory.cli.terminal import escape_json
from nomemory.client import as_prompt
from nomemory.client.prompt_block import MAX_TOKENS, MIN_TOKENS, PROMPT_MESSAGES
from nomemory.client.sync import Client
from nomemory.v1 import recall_service_pb2 as pb


@click.command("recall")
@click.argument("question")
@user_option
@time_option("--since", f"Prefer messages at or after this time: {TIME_FORMATS}.")
@time_option("--until", "Prefer messages before this time; same formats as --since.")
@role_option("Prefer messages with this role.")
@time_option("--now", "Reference time for relative dates; same formats as --since.")
@click.option("--time-zone", default="", metavar="NAME", help="Time zone of the user, such as Asia/Shanghai.")
@click.option("--conversation", "conversation_id", metavar="ID", help="Search only this conversation.")
@click.option(
    "--exclude-conversation",
    "exclude_conversation_ids",
    metavar="ID",
    multiple=True,
    help="Exclude this conversation. May be repeated up to 16 times.",
)
@click.option("--skill", default="", metavar="NAME", help="Recall skill to use.")
@click.option("--explain", is_flag=True, help="Show the search steps and the evidence.")
@click.option(
    "--as",
    "output_format",
    type=click.Choice(["answer", "prompt"]),
    default="answer",
    show_default=True,
    help="`prompt` formats the evidence as a block for an LLM prompt.",
)
@click.option(
    "--max-tokens",
    type=click.IntRange(min=MIN_TOKENS),
    default=MAX_TOKENS,
    show_default=True,
    help="Maximum size of the prompt block, in estimated tokens.",
)
@content_output_option
@client_option
def run_recall(
    *,
    question: str,
    user: str,
    explain: bool,
    output_format: str,
    max_tokens: int,
    output: Output,
    client: Client,
    **options: Any,  # noqa: ANN401 - options of `Client.stream_recall`
) -> None:
    """Answer a question about a user from stored messages, with a citation for every statement."""
    if output_format == "prompt" and isinstance(output, JsonLines):
        raise click.UsageError("--as prompt and --json cannot be combined.")
    steps = []
    evidence_messages = PROMPT_MESSAGES if output_format == "prompt" else 0
    for event in client.stream_recall(question, user_id=user, evidence_messages=evidence_messages, **options):
        if event.HasField("step"):
            if explain:
                steps.append(event.step)
                output.show_step(event.step)
            continue
        event.result.trace.extend(steps)
        if output_format == "prompt":
            block = as_prompt(event.result, max_tokens=max_tokens, question=question, time_zone=options["time_zone"])
            click.echo(escape_json(block))
        else:
            output.show(event.result, explain=explain)
        _notify_index_lag(event.result, output)


def _notify_index_lag(result: pb.RecallResponse, output: Output) -> None:
    if result.limits.index_lagging and result.verdict != pb.VERDICT_PENDING:
        output.show_notice("Some of this user's messages are not indexed yet. See `nomemory status`.")
