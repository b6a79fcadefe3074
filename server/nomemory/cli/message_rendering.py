"""Render messages and recall results for a terminal."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from datetime import UTC
from typing import Final

from google.protobuf import json_format
from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nomemory.cli.terminal import pluralize, replace_control_characters, to_single_line
from nomemory.client.messages import to_role_name
from nomemory.v1 import message_pb2, query_service_pb2
from nomemory.v1 import recall_service_pb2 as pb

_SECTIONS: Final = (("Preferences", "preferences"), ("Profile", "profile"), ("Constraints", "constraints"))
_VERDICTS: Final = {
    pb.VERDICT_SUPPORTED: ("≈ Probably answered. Each line {cites} a message.", "bold"),
    pb.VERDICT_POSSIBLE: ("≈ Possibly answered; no model has read the messages. Each line {cites} a message.", "bold"),
    pb.VERDICT_CONFLICTING: ("≠ Contradictory evidence. Both sides are shown.", "bold yellow"),
    pb.VERDICT_INSUFFICIENT: ("– Probably not answered.", "bold yellow"),
    pb.VERDICT_PENDING: ("… Some stored messages are not searchable yet. Try again.", "bold yellow"),
}
_POSSIBLY_CONFLICTING: Final = "≠ Possibly contradictory evidence. Both sides are shown."
_NOT_FOUND: Final = "– No answer found."
_ATTRIBUTIONS: Final = {
    pb.ATTRIBUTION_OTHER: "not said by the user",
    pb.ATTRIBUTION_QUOTED: "pasted, forwarded or quoted by the user",
}
"""Remarks on statements that do not quote the user's own words."""
_INDENT: Final = (0, 0, 0, 2)
_NEAREST: Final = 3
"""Number of messages to show if there is no answer."""

LONG_CHARS: Final = 400
"""Length above which a message is shortened to a snippet or its beginning."""

_ROLE_STYLES: Final = {
    message_pb2.ROLE_USER: "bold cyan",
    message_pb2.ROLE_ASSISTANT: "bold green",
    message_pb2.ROLE_SYSTEM: "bold magenta",
    message_pb2.ROLE_TOOL: "bold yellow",
}
_NAME_STYLES: Final = ("bold cyan", "bold green", "bold blue", "bold magenta", "bold yellow")
_MATCH: Final = "bold black on bright_yellow"


def render_speaker(message: message_pb2.ChatMessage) -> Text:
    """Return the speaker's name in a stable color, or the role if there is no name."""
    if message.name:
        style = _NAME_STYLES[zlib.crc32(message.name.encode()) % len(_NAME_STYLES)]
        return Text(to_single_line(message.name), style=style)
    return Text(to_role_name(message.role), style=_ROLE_STYLES.get(message.role, "bold"))


def render_content(
    message: message_pb2.ChatMessage, highlight: query_service_pb2.Highlight | None, *, full: bool
) -> Text:
    """Return the content with matches highlighted, followed by its retractions.

    Unless `full` is set, a long message is shortened to its snippet or its beginning.
    """
    text = Text(replace_control_characters(message.content), style="strike dim" if message.retracted_by else "")
    for span in highlight.spans if highlight is not None else ():
        text.stylize(_MATCH, span.start, span.end)
    if not full and len(text) > LONG_CHARS:
        start, end = (highlight.snippet.start, highlight.snippet.end) if highlight is not None else (0, LONG_CHARS)
        text = _cut_excerpt(text, start, end or LONG_CHARS)
    return Text.assemble(text, *((f"  ({remark})", "yellow") for remark in _describe_retractions(message)))


def _describe_retractions(message: message_pb2.ChatMessage) -> Iterator[str]:
    if message.retracts:
        yield f"retracts {', '.join(map(to_single_line, message.retracts))}"
    if message.retracted_by:
        yield f"retracted by {to_single_line(message.retracted_by)}"


def _cut_excerpt(text: Text, start: int, end: int) -> Text:
    before, after = "…" if start else "", f"… ({len(text):,} characters)"
    return Text.assemble((before, "dim"), text[start:end], (after, "dim"))


def render_step(recall_step: pb.RecallStep) -> Iterator[RenderableType]:
    """Render a recall step, with the reason and the observation below it."""
    call = Text.assemble((f"{recall_step.iteration} ", "dim"), (recall_step.tool or "decide", "cyan"))
    if recall_step.tool:
        arguments = json_format.MessageToDict(recall_step.arguments)
        shown = " ".join(f"{name}={value}" for name, value in _flatten_arguments(arguments))
        call.append(f"  → {recall_step.hits}").append(f"  {to_single_line(shown)}", style="dim")
    yield call
    for remark in filter(None, (recall_step.thought, recall_step.observation)):
        yield Padding(Text(replace_control_characters(remark), style="dim italic"), _INDENT)


def render_recall_result(reply: pb.RecallResponse, *, full: bool, explain: bool) -> Iterator[RenderableType]:
    """Render the verdict and the statements with their quotes; without statements, render the nearest messages.

    `explain` adds all evidence with scores, and the search limits.
    """
    yield from _render_view(reply)
    if explain:
        shown, title = len(reply.evidence), "Evidence"
    else:
        shown, title = 0 if reply.memory_view.ByteSize() else _NEAREST, "Nearest messages"
    if reply.evidence and shown:
        yield Text(f"\n{title}", style="bold")
    for item in reply.evidence[:shown]:
        yield from _render_message(item, full=full, facts=f" · {item.score:.3f}" if explain else "")
    if explain:
        yield from _render_limits(reply)


def _render_view(reply: pb.RecallResponse) -> Iterator[RenderableType]:
    yield _render_verdict(reply)
    for title, field in _SECTIONS:
        statements: Sequence[pb.Statement] = getattr(reply.memory_view, field)
        if statements:
            yield Text(f"\n{title}", style="bold")
            for statement in statements:
                yield from _render_statement(statement)
    if reply.conflicts:
        heading = (
            "These may contradict each other" if _has_only_possible_conflicts(reply) else "These contradict each other"
        )
        yield Text(f"\n{heading}", style="bold yellow")
        for conflict in reply.conflicts:
            yield _render_conflict(conflict)


def _render_verdict(reply: pb.RecallResponse) -> Text:
    text, style = _VERDICTS.get(reply.verdict, ("", ""))
    if reply.verdict == pb.VERDICT_INSUFFICIENT and not (reply.memory_view.ByteSize() or reply.evidence):
        text = _NOT_FOUND
    elif reply.verdict == pb.VERDICT_CONFLICTING and _has_only_possible_conflicts(reply):
        text = _POSSIBLY_CONFLICTING
    return Text(text.format(cites="quotes" if _is_only_quotes(reply.memory_view) else "cites"), style=style)


def _is_only_quotes(view: pb.MemoryView) -> bool:
    """Return whether every statement equals one of its quotes."""
    statements = [statement for _, field in _SECTIONS for statement in getattr(view, field)]
    return all(statement.text in {citation.quote for citation in statement.citations} for statement in statements)


def _has_only_possible_conflicts(reply: pb.RecallResponse) -> bool:
    return bool(reply.conflicts) and all(conflict.possible for conflict in reply.conflicts)


def _render_message(item: pb.EvidenceMessage, *, full: bool, facts: str) -> Iterator[RenderableType]:
    message = item.message
    source = f"  {_format_day(message.ts)} · {to_single_line(message.message_id)}{facts}"
    yield Padding(Text.assemble(render_speaker(message), (source, "dim")), _INDENT)
    yield Padding(render_content(message, None, full=full), (0, 0, 0, 4))


def _render_limits(reply: pb.RecallResponse) -> Iterator[RenderableType]:
    limits = reply.limits
    stop_reason = pb.StopReason.Name(limits.stop_reason).removeprefix("STOP_REASON_").lower().replace("_", " ")
    planner = pb.Planner.Name(limits.planner).removeprefix("PLANNER_").lower().replace("_", " ")
    facts = [
        f"{limits.messages_considered} messages considered",
        f"{limits.tool_calls} calls in {limits.iterations} rounds",
        f"planner {planner}",
        f"stopped: {stop_reason}",
    ]
    yield Text("\n" + " · ".join(facts), style="dim")
    if limits.model_calls:
        yield Text(" · ".join(_describe_model_use(limits)), style="dim")
    for note in limits.notes:
        yield Padding(Text(replace_control_characters(note.text), style="dim"), _INDENT)


def _describe_model_use(limits: pb.RecallLimits) -> Iterator[str]:
    """Yield the number of model calls, of messages that were read, and, if the endpoint reports it, of tokens."""
    yield pluralize(limits.model_calls, "model call")
    yield f"{pluralize(limits.messages_read, 'message')} read"
    if limits.HasField("token_usage"):
        usage = limits.token_usage
        cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
        yield f"{pluralize(usage.prompt_tokens, 'prompt token')}{cached}"
        yield pluralize(usage.completion_tokens, "completion token")


def _render_statement(statement: pb.Statement) -> Iterator[RenderableType]:
    """Render a statement and its quotes, except a quote that equals the statement."""
    citations = [citation for citation in statement.citations if citation.quote != statement.text]
    line = Text(replace_control_characters(statement.text))
    for citation in statement.citations:
        if citation not in citations:
            line.append(_describe_citation(citation), style="dim")
    bullet = _create_grid(1)
    bullet.add_row("  •", line)
    yield bullet
    for citation in citations:
        quote = Text(f"“{replace_control_characters(citation.quote)}”", style="italic").append(
            _describe_citation(citation), style="dim"
        )
        yield Padding(quote, (0, 0, 0, 4))
    if remarks := "; ".join(_describe_attribution(statement)):
        yield Padding(Text(remarks, style="yellow"), (0, 0, 0, 4))


def _describe_attribution(statement: pb.Statement) -> Iterator[str]:
    """Yield remarks on a statement that is superseded or quotes somebody else."""
    if statement.superseded_by:
        yield f"superseded by {to_single_line(statement.superseded_by)}"
    if statement.attribution in _ATTRIBUTIONS:
        yield _ATTRIBUTIONS[statement.attribution]


def _describe_citation(citation: pb.Citation) -> str:
    return f"  {_format_day(citation.ts)} · {to_single_line(citation.message_id)}"


def _render_conflict(conflict: pb.Conflict) -> Table:
    table = _create_grid(2)
    for name, side in (("  earlier", conflict.earlier), ("  later", conflict.later)):
        date = _format_day(side.citations[0].ts) if side.citations else ""
        table.add_row(Text(name, style="dim"), Text(date, style="dim"), Text(replace_control_characters(side.text)))
    return table


def _create_grid(fixed: int) -> Table:
    """Return a grid with `fixed` columns that do not wrap, and a last column that wraps at any character."""
    table = Table.grid(padding=(0, 1))
    for _ in range(fixed):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _flatten_arguments(arguments: dict[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in sorted(arguments.items()):
        if isinstance(value, dict):
            yield from _flatten_arguments(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", int(value) if isinstance(value, float) and value.is_integer() else value


def _format_day(timestamp: Timestamp) -> str:
    return f"{timestamp.ToDatetime(tzinfo=UTC):%Y-%m-%d}"
