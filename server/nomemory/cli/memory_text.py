"""What was said, as a terminal shows it: a message; a recall with its steps, its memory view and the evidence."""

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

from nomemory.cli.terminal import one_line, printable
from nomemory.client.messages import role_name
from nomemory.v1 import message_pb2, query_service_pb2
from nomemory.v1 import recall_service_pb2 as pb

_SECTIONS: Final = (("Preferences", "preferences"), ("Profile", "profile"), ("Constraints", "constraints"))
_VERDICTS: Final = {
    pb.VERDICT_SUPPORTED: ("≈ This probably answers. Each line {cites} what was said.", "bold"),
    pb.VERDICT_CONFLICTING: ("≠ The evidence says both. Neither side is left out.", "bold yellow"),
    pb.VERDICT_INSUFFICIENT: ("– This is probably not answered. What comes nearest to an answer:", "bold yellow"),
    pb.VERDICT_PENDING: ("… Messages were stored that are not searchable yet; ask again.", "bold yellow"),
}
_POSSIBLY_BOTH: Final = "≠ The evidence may contradict itself. Neither side is left out."
_NOTHING: Final = "– Nothing was found that answers this."
_ATTRIBUTIONS: Final = {
    pb.ATTRIBUTION_OTHER: "not said by the user",
    pb.ATTRIBUTION_QUOTED: "passed on by the user: pasted, forwarded or quoted",
}
"""Whose words a statement quotes, where they are not the user's own."""
_INDENT: Final = (0, 0, 0, 2)
_NEAREST: Final = 3
"""How many messages stand in for an answer where nobody asks for all the evidence."""

LONG_CHARS: Final = 400
"""Where a message counts as long: it is then cut, or shown as its snippet."""

_ROLE_STYLES: Final = {
    message_pb2.ROLE_USER: "bold cyan",
    message_pb2.ROLE_ASSISTANT: "bold green",
    message_pb2.ROLE_SYSTEM: "bold magenta",
    message_pb2.ROLE_TOOL: "bold yellow",
}
_NAME_STYLES: Final = ("bold cyan", "bold green", "bold blue", "bold magenta", "bold yellow")
_MATCH: Final = "bold black on bright_yellow"


def speaker(message: message_pb2.ChatMessage) -> Text:
    """Return who spoke: the name in a colour of its own, else the role."""
    if message.name:
        style = _NAME_STYLES[zlib.crc32(message.name.encode()) % len(_NAME_STYLES)]
        return Text(one_line(message.name), style=style)
    return Text(role_name(message.role), style=_ROLE_STYLES.get(message.role, "bold"))


def content(message: message_pb2.ChatMessage, highlight: query_service_pb2.Highlight | None, *, full: bool) -> Text:
    """Return what was said, with the matches marked. A long message is cut to its snippet or its beginning.

    Behind it stands what it takes back, and what took it back.
    """
    text = Text(printable(message.content), style="strike dim" if message.retracted_by else "")
    for span in highlight.spans if highlight is not None else ():
        text.stylize(_MATCH, span.start, span.end)
    if not full and len(text) > LONG_CHARS:
        start, end = (highlight.snippet.start, highlight.snippet.end) if highlight is not None else (0, LONG_CHARS)
        text = _excerpt(text, start, end or LONG_CHARS)
    return Text.assemble(text, *((f"  ({remark})", "yellow") for remark in _retractions(message)))


def _retractions(message: message_pb2.ChatMessage) -> Iterator[str]:
    if message.retracts:
        yield f"takes back {', '.join(map(one_line, message.retracts))}"
    if message.retracted_by:
        yield f"taken back by {one_line(message.retracted_by)}"


def _excerpt(text: Text, start: int, end: int) -> Text:
    before, after = "…" if start else "", f"… ({len(text):,} characters)"
    return Text.assemble((before, "dim"), text[start:end], (after, "dim"))


def step(taken: pb.RecallStep) -> Iterator[RenderableType]:
    """Show a step in a line, with why it was taken and what came of it below."""
    call = Text.assemble((f"{taken.iteration} ", "dim"), (taken.tool or "decide", "cyan"))
    if taken.tool:
        arguments = json_format.MessageToDict(taken.arguments)
        shown = " ".join(f"{name}={value}" for name, value in _flat(arguments))
        call.append(f"  → {taken.hits}").append(f"  {one_line(shown)}", style="dim")
    yield call
    for remark in filter(None, (taken.thought, taken.observation)):
        yield Padding(Text(printable(remark), style="dim italic"), _INDENT)


def recalled(reply: pb.RecallResponse, *, full: bool, explain: bool) -> Iterator[RenderableType]:
    """Show the verdict and every statement with its quotes. Where there is none, show the nearest messages.

    Explained, show all the evidence with its scores, and what was looked at.
    """
    yield from _view(reply)
    if explain:
        shown, title = len(reply.evidence), "Evidence"
    else:
        shown, title = 0 if reply.memory_view.ByteSize() else _NEAREST, "Nearest messages"
    if reply.evidence and shown:
        yield Text(f"\n{title}", style="bold")
    for item in reply.evidence[:shown]:
        yield from _message(item, full=full, facts=f" · {item.score:.3f}" if explain else "")
    if explain:
        yield from _limits(reply)


def _view(reply: pb.RecallResponse) -> Iterator[RenderableType]:
    yield _verdict(reply)
    for title, field in _SECTIONS:
        statements: Sequence[pb.Statement] = getattr(reply.memory_view, field)
        if statements:
            yield Text(f"\n{title}", style="bold")
            for statement in statements:
                yield from _statement(statement)
    if reply.conflicts:
        heading = "These may contradict each other" if _is_guessed(reply) else "These contradict each other"
        yield Text(f"\n{heading}", style="bold yellow")
        for conflict in reply.conflicts:
            yield _pair(conflict)


def _verdict(reply: pb.RecallResponse) -> Text:
    words, style = _VERDICTS.get(reply.verdict, ("", ""))
    if reply.verdict == pb.VERDICT_INSUFFICIENT and not (reply.memory_view.ByteSize() or reply.evidence):
        words = _NOTHING
    elif reply.verdict == pb.VERDICT_CONFLICTING and _is_guessed(reply):
        words = _POSSIBLY_BOTH
    return Text(words.format(cites="quotes" if _is_verbatim(reply.memory_view) else "cites"), style=style)


def _is_verbatim(view: pb.MemoryView) -> bool:
    """Return whether every statement is nothing but its quotes; else a model worded some of them."""
    statements = (one for _, field in _SECTIONS for one in getattr(view, field))
    return all(one.text in {quote.quote for quote in one.citations} for one in statements)


def _is_guessed(reply: pb.RecallResponse) -> bool:
    return bool(reply.conflicts) and all(conflict.possible for conflict in reply.conflicts)


def _message(item: pb.EvidenceMessage, *, full: bool, facts: str) -> Iterator[RenderableType]:
    message = item.message
    where = f"  {_day(message.ts)} · {one_line(message.message_id)}{facts}"
    yield Padding(Text.assemble(speaker(message), (where, "dim")), _INDENT)
    yield Padding(content(message, None, full=full), (0, 0, 0, 4))


def _limits(reply: pb.RecallResponse) -> Iterator[RenderableType]:
    looked = reply.limits
    stopped = pb.StopReason.Name(looked.stop_reason).removeprefix("STOP_REASON_").lower().replace("_", " ")
    facts = [
        f"{looked.messages_considered} messages considered",
        f"{looked.tool_calls} calls in {looked.iterations} rounds",
        f"planner {looked.planner}",
        f"stopped: {stopped}",
    ]
    yield Text("\n" + " · ".join(facts), style="dim")
    for note in looked.notes:
        yield Padding(Text(printable(note), style="dim"), _INDENT)


def _statement(statement: pb.Statement) -> Iterator[RenderableType]:
    """Show a statement; one that is nothing but its quote is said once."""
    citations = [citation for citation in statement.citations if citation.quote != statement.text]
    line = Text(printable(statement.text))
    for citation in statement.citations:
        if citation not in citations:
            line.append(_where(citation), style="dim")
    bullet = _columns(1)
    bullet.add_row("  •", line)
    yield bullet
    for citation in citations:
        quote = Text(f"“{printable(citation.quote)}”", style="italic").append(_where(citation), style="dim")
        yield Padding(quote, (0, 0, 0, 4))
    if remarks := "; ".join(_remarks(statement)):
        yield Padding(Text(remarks, style="yellow"), (0, 0, 0, 4))


def _remarks(statement: pb.Statement) -> Iterator[str]:
    """Say what a reader must know of a statement: that there is a newer one, and that it is not the user's own."""
    if statement.superseded_by:
        yield f"superseded by {one_line(statement.superseded_by)}"
    if statement.attribution in _ATTRIBUTIONS:
        yield _ATTRIBUTIONS[statement.attribution]


def _where(citation: pb.Citation) -> str:
    return f"  {_day(citation.ts)} · {one_line(citation.message_id)}"


def _pair(conflict: pb.Conflict) -> Table:
    table = _columns(2)
    for name, side in (("  earlier", conflict.earlier), ("  later", conflict.later)):
        said = _day(side.citations[0].ts) if side.citations else ""
        table.add_row(Text(name, style="dim"), Text(said, style="dim"), Text(printable(side.text)))
    return table


def _columns(fixed: int) -> Table:
    """Return a table whose last column, after some that are short, wraps texts without blanks, too."""
    table = Table.grid(padding=(0, 1))
    for _ in range(fixed):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _flat(arguments: dict[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in sorted(arguments.items()):
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", int(value) if isinstance(value, float) and value.is_integer() else value


def _day(moment: Timestamp) -> str:
    return f"{moment.ToDatetime(tzinfo=UTC):%Y-%m-%d}"
