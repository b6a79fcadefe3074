"""`nomemory semantic`."""

from __future__ import annotations

import click

from nomemory.cli.connection import connect
from nomemory.cli.options import content_output_option, narrowing_options, user_option
from nomemory.cli.output import Output
from nomemory.cli.target import Target, target_option
from nomemory.client.options import Narrowing


@click.command("semantic")
@click.argument("text")
@user_option
@narrowing_options
@click.option("--top-k", type=click.IntRange(1, 200), default=20, show_default=True, help="How many messages to show.")
@click.option("--min-score", type=click.FloatRange(-1, 1), help="Leave out what is less near than this cosine.")
@content_output_option
@target_option
def semantic(
    *, text: str, user: str, narrowing: Narrowing, top_k: int, min_score: float | None, output: Output, target: Target
) -> None:
    """Find what means the same as a text, nearest first. The score is a cosine."""
    with connect(target) as client:
        reply = client.semantic_search(user, text, top_k=top_k, min_score=min_score, **narrowing)
    output.semantic(reply.items)
    if reply.truncated:
        output.notice("The reply was cut at its size limit: there are fewer messages than asked for.")
    if not reply.items and reply.index_behind:
        output.notice("No messages found yet: some are still being embedded; nomemory status shows how many.")
    elif not reply.items:
        output.nothing()
    elif reply.index_behind:
        output.notice("Some of this user's messages cannot be found by meaning yet; nomemory status shows more.")
