"""Counts and states as a person reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nomemory.cli.output import Count, Diagnosis, Exported
from nomemory.cli.terminal import counted, one_line
from nomemory.importing.record import Place
from nomemory.importing.upload import Summary
from nomemory.v1 import ingest_service_pb2, query_service_pb2, server_service_pb2

_LIMITS: Final = {
    "request_bytes": ("Request", "byte"),
    "content_bytes": ("Content of a message", "byte"),
    "batch_messages": ("Batch that is written", "message"),
    "page_size": ("Page", "message"),
    "query_chars": ("Query or question", "character"),
    "top_k": ("Search by meaning", "message"),
    "turns": ("Conversation in a recall", "turn"),
    "user_reads": ("Expensive reads of one user", "read"),
    "caller_reads": ("Expensive reads of one caller", "read"),
}
"""What people call the limits of a server, and what each counts."""
_REASONS_SHOWN: Final = 5
_MOMENT: Final = "%Y-%m-%d %H:%M:%S"
_STATES: Final = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red"), "skip": ("–", "dim")}


def status(reply: ingest_service_pb2.GetIndexStatusResponse) -> Iterable[Table]:
    """Lay out the state of the log and the indexes."""
    log, embedder = reply.log, reply.embedder
    table = Table.grid(padding=(0, 2))
    table.add_row(
        _label("Log"),
        f"{counted(log.messages, 'message')} of {counted(log.users, 'user')}",
        f"sequence {log.sequence:,}" if log.sequence or not log.messages else "",  # none is told in a namespace
    )
    if log.fault or log.damaged:
        damage = f"{counted(log.damaged, 'message')} damaged" if log.damaged else one_line(log.fault)
        table.add_row(_label("Damage"), Text(damage, style="red"), "")
    table.add_row(_label("Words"), _progress(reply.lexical), Text(one_line(reply.lexical.name), style="dim"))
    if embedder.kind == "none":
        table.add_row(_label("Meaning"), Text("no embedder, so only vectors of the caller's own", style="yellow"), "")
    else:
        table.add_row(_label("Meaning"), _progress(reply.vector), Text(one_line(reply.vector.name), style="dim"))
        table.add_row(_label("Embedder"), *_embedder(embedder))
    if reply.HasField("next_vector"):
        coming = reply.next_vector
        table.add_row(_label("To come"), _progress(coming), Text(one_line(coming.name), style="dim"))
        table.add_row("", *_embedder(reply.next_embedder))
    for fault in reply.faults:
        said = Text(f"{one_line(fault.part)}: {one_line(fault.detail or fault.kind)}", style="red")
        since = Text(f"since {fault.since.ToDatetime(tzinfo=UTC):{_MOMENT}} UTC", style="dim")
        table.add_row(Text("Fault", style="bold red"), said, since)
    return [table]


def server_info(reply: server_service_pb2.GetServerInfoResponse) -> Iterable[Table]:
    """Lay out what a server is. What it has nothing to do with is left out."""
    table = Table.grid(padding=(0, 2))
    table.add_row(_label("Version"), one_line(reply.version))
    table.add_row(_label("Features"), ", ".join(map(one_line, reply.features)))
    if reply.embedding_dimension:
        table.add_row(_label("Embedder"), embedding_model(reply) or Text("none", style="yellow"))
    for name, (bounded, noun) in _LIMITS.items():
        if most := getattr(reply.limits, name):
            table.add_row(_label(bounded), f"at most {counted(most, noun)}")
    if reply.HasField("reads"):
        reads = reply.reads
        now = f"{reads.running:,} running, {reads.waiting:,} waiting, {reads.refused:,} refused since the start"
        table.add_row(_label("Expensive reads now"), now)
    return [table]


def embedding_model(reply: server_service_pb2.GetServerInfoResponse) -> str:
    """Name the model that embeds texts; nothing where there is none."""
    model = one_line(reply.embedding_model)
    return f"{model}, {counted(reply.embedding_dimension, 'dimension')}" if model else ""


def summary(done: Summary) -> Iterator[Text]:
    """Say what became of a file: its name and form, the counts that are not zero, and what to look at."""
    tally = done.tally
    yield Text.assemble(
        (one_line(done.source), "bold"), f"  {done.title}", ("  dry run" if done.dry_run else "", "yellow")
    )
    counts = [
        (tally.sent if done.dry_run else None, "to store", "green"),
        (tally.created, "created", "green"),
        (tally.unchanged, "already there", "dim"),
        (tally.replaced, "replaced", "cyan"),
        (tally.skipped, "skipped", "dim"),
        (tally.rejected, "rejected", "red"),
    ]
    shown = [Text(f"{number:,} {word}", style=style) for number, word, style in counts if number]
    yield Text("  ").append_text(Text(", ").join(shown) if shown else Text("no messages", style="yellow"))
    if done.ignored:
        fields = ", ".join(f"{one_line(name)} ({number:,})" for name, number in sorted(done.ignored.items()))
        yield Text(f"  Fields without a place in a message: {fields}", style="yellow")
    most = sorted(done.wrong.items(), key=lambda one: -one[1].count)
    for reason, wrong in most[:_REASONS_SHOWN]:
        yield Text(f"  {wrong.count:,} × {one_line(reason)} (first at {_place(wrong.first)})", style="red")
    if done.rejects:
        yield Text(f"  The rejects and their reasons: {one_line(str(done.rejects))}", style="red")


def _place(place: Place) -> str:
    return one_line(f"{place.unit} {place.number}{place.within and f', {place.within}'}")


def diagnosis(found: Diagnosis) -> Iterable[Table]:
    """Lay out what was checked, with what to do below each finding."""
    table = Table.grid(padding=(0, 2))
    for check in found.checks:
        sign, style = _STATES[check.state]
        finding = Text(one_line(check.finding))
        if check.advice:
            finding.append(f"\n{check.advice}", style="yellow" if check.state == "warn" else style)
        table.add_row(Text(sign, style=f"bold {style}"), Text(check.name), finding)
    return [table]


def conversations(reply: query_service_pb2.ListConversationsResponse) -> Iterable[RenderableType]:
    """Lay out conversations: when they were, how long they are, and what they are called."""
    if not reply.conversations:
        return [Text("No conversations found.", style="dim")]
    table = Table("first", "last", "messages", "conversation", box=None, pad_edge=False)
    table.columns[2].justify = "right"
    for one in reply.conversations:
        table.add_row(_minute(one.first_ts), _minute(one.last_ts), f"{one.message_count:,}", _id(one.conversation_id))
    return [table]


def users(reply: query_service_pb2.ListUsersResponse) -> Iterable[RenderableType]:
    """Lay out users: how much they have said, and who they are."""
    if not reply.users:
        return [Text("No user has messages.", style="dim")]
    table = Table("messages", "user", box=None, pad_edge=False)
    table.columns[0].justify = "right"
    for one in reply.users:
        table.add_row(f"{one.message_count:,}", _id(one.user_id))
    return [table]


def count(found: Count) -> Iterable[Text]:
    """Say how many there are."""
    return [Text(f"{counted(found.count, 'message')}.")]


def exported(done: Exported) -> Iterable[Text]:
    """Say what is in the file."""
    return [Text(f"{one_line(done.file)}: {counted(done.messages, 'message')} of {counted(done.users, 'user')}.")]


def deleted(reply: ingest_service_pb2.DeleteMessagesResponse) -> Iterator[Text]:
    """Say how many are gone, and which were not there."""
    yield Text(f"Deleted {counted(reply.deleted, 'message')}.")
    for message_id in reply.missing_message_ids:
        yield Text(f"  There was no {one_line(message_id)}.", style="yellow")


def erased(reply: ingest_service_pb2.EraseUserResponse) -> Iterator[RenderableType]:
    """Say how many are gone, and where bytes of them still are, which no read can reach."""
    at = reply.erase_ts.ToDatetime(tzinfo=UTC)
    yield Text(f"Erased at {at:{_MOMENT}}: {counted(reply.deleted, 'message')}.")
    if reply.residues:
        yield Text("No read finds anything of this user. Bytes are still in:")
    for residue in reply.residues:
        by = f" By {residue.expire_ts.ToDatetime(tzinfo=UTC):{_MOMENT}}." if residue.HasField("expire_ts") else ""
        yield Padding(Text(f"{residue.place}: {residue.until}{by}", style="dim"), (0, 0, 0, 2))


def _minute(ts: Timestamp) -> str:
    return f"{ts.ToDatetime(tzinfo=UTC):%Y-%m-%d %H:%M}"


def _id(text: str) -> Text:
    return Text(one_line(text), overflow="fold")


def _label(text: str) -> Text:
    return Text(text, style="bold")


def _progress(index: ingest_service_pb2.IndexStatus) -> Text:
    parts = []
    if index.pending:
        parts.append(Text(f"{counted(index.pending, 'message')} to go", style="yellow"))
    elif not index.fault:
        parts.append(Text("up to date", style="green"))
    if index.notice:
        parts.append(Text("rebuilt since the server started", style="yellow"))
    if index.dead_letters:
        parts.append(Text(f"{index.dead_letters:,} can never be indexed", style="red"))
    if index.fault:
        parts.append(Text(f"retrying after {one_line(index.fault)}", style="red"))
    return Text(", ").join(parts)


def _embedder(embedder: ingest_service_pb2.EmbedderStatus) -> tuple[Text, Text]:
    facts = f"{counted(embedder.dimension, 'dimension')}, {counted(embedder.texts_embedded, 'text')} since the start"
    return Text(f"{one_line(embedder.kind)}: {one_line(embedder.model)}"), Text(facts, style="dim")


SHOWN: Final[Mapping[type, Callable[[Any], Iterable[RenderableType]]]] = {
    ingest_service_pb2.GetIndexStatusResponse: status,
    ingest_service_pb2.DeleteMessagesResponse: deleted,
    ingest_service_pb2.EraseUserResponse: erased,
    query_service_pb2.ListConversationsResponse: conversations,
    query_service_pb2.ListUsersResponse: users,
    server_service_pb2.GetServerInfoResponse: server_info,
    Count: count,
    Diagnosis: diagnosis,
    Exported: exported,
    Summary: summary,
}
"""What shows an answer of each type: its lines, or its table."""
