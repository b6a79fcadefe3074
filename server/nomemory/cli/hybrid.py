"""`nomemory hybrid`."""

from __future__ import annotations

import click

from nomemory.cli.connection import connect
from nomemory.cli.options import content_output_option, narrowing_options, user_option
from nomemory.cli.output import Output
from nomemory.cli.target import Target, target_option
from nomemory.client.options import Narrowing


@click.command("hybrid")
@click.argument("question")
@user_option
@narrowing_options
@click.option("--top-k", type=click.IntRange(1, 200), default=20, show_default=True, help="How many messages to show.")
@click.option("--explain", is_flag=True, help="Show what each score is made of.")
@content_output_option
@target_option
def hybrid(
    *, question: str, user: str, narrowing: Narrowing, top_k: int, explain: bool, output: Output, target: Target
) -> None:
    """Find what answers a question, best first: by words, by meaning, by who spoke and by what stands around."""
    with connect(target) as client:
        reply = client.hybrid_search(user, question, top_k=top_k, explain=explain, **narrowing)
    output.hybrid(reply)
    if reply.truncated:
        output.notice("The reply was cut at its size limit: there are fewer messages than asked for.")
    if reply.words_only:
        output.notice("Meaning had no part in this: the server has no embedder, or it does not answer.")
    if not reply.items and reply.index_behind:
        output.notice("No messages found yet: some are still being indexed; nomemory status shows how many.")
    elif not reply.items:
        output.nothing()
    elif reply.index_behind:
        output.notice("Some of this user's messages cannot be found yet; nomemory status shows more.")
