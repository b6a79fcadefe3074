"""Render status, counts and summaries as tables and text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nomemory.cli.output import Diagnosis, ExportSummary, MessageCount
from nomemory.cli.terminal import pluralize, to_single_line
from nomemory.importing.record import SourceLocation
from nomemory.importing.upload import ImportSummary
from nomemory.v1 import ingest_service_pb2, query_service_pb2, server_service_pb2

_LIMITS: Final = {
    "max_request_bytes": ("Request", "byte"),
    "max_content_bytes": ("Message content", "byte"),
    "max_batch_messages": ("Batch", "message"),
    "max_page_size": ("Page", "message"),
    "max_query_chars": ("Query or question", "character"),
    "max_top_k": ("Semantic search", "message"),
    "max_turns": ("Turns in a recall", "turn"),
    "max_inflight_reads_per_user": ("Concurrent reads per user", "read"),
    "max_inflight_reads_per_caller": ("Concurrent reads per caller", "read"),
}
"""Label and unit of each server limit."""
_REASONS_SHOWN: Final = 5
_TIME_FORMAT: Final = "%Y-%m-%d %H:%M:%S"
_STATES: Final = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red"), "skip": ("–", "dim")}


def render_status_tables(reply: ingest_service_pb2.GetIndexStatusResponse) -> Iterable[Table]:
    """Render the state of the message log and the indexes."""
    log, embedder = reply.log, reply.embedder
    table = Table.grid(padding=(0, 2))
    table.add_row(
        _render_label("Message log"),
        f"{pluralize(log.messages, 'message')} of {pluralize(log.users, 'user')}",
        f"sequence {log.sequence:,}" if log.sequence or not log.messages else "",  # 0 for a caller in a namespace
    )
    if log.error or log.damaged:
        damage = f"{pluralize(log.damaged, 'message')} damaged" if log.damaged else to_single_line(log.error)
        table.add_row(_render_label("Damage"), Text(damage, style="red"), "")
    table.add_row(
        _render_label("Lexical index"),
        _render_progress(reply.lexical),
        Text(to_single_line(reply.lexical.name), style="dim"),
    )
    if embedder.kind == ingest_service_pb2.EMBEDDER_KIND_NONE:
        table.add_row(
            _render_label("Vector index"), Text("no embedder; only caller-supplied vectors", style="yellow"), ""
        )
    else:
        table.add_row(
            _render_label("Vector index"),
            _render_progress(reply.vector),
            Text(to_single_line(reply.vector.name), style="dim"),
        )
        table.add_row(_render_label("Embedder"), *_render_embedder(embedder))
    if reply.HasField("next_vector"):
        coming = reply.next_vector
        table.add_row(
            _render_label("New index"), _render_progress(coming), Text(to_single_line(coming.name), style="dim")
        )
        table.add_row("", *_render_embedder(reply.next_embedder))
    for fault in reply.faults:
        description = Text(describe_fault(fault), style="red")
        since = Text(f"since {fault.start_ts.ToDatetime(tzinfo=UTC):{_TIME_FORMAT}} UTC", style="dim")
        table.add_row(Text("Fault", style="bold red"), description, since)
    return [table]


def render_server_info_tables(reply: server_service_pb2.GetServerInfoResponse) -> Iterable[Table]:
    """Render version, features, embedder, limits and load of a server."""
    table = Table.grid(padding=(0, 2))
    table.add_row(_render_label("Version"), to_single_line(reply.version))
    table.add_row(_render_label("Features"), ", ".join(map(to_single_line, reply.features)))
    if reply.embedding_dimension:
        table.add_row(_render_label("Embedder"), describe_embedding_model(reply) or Text("none", style="yellow"))
    for name, (label, noun) in _LIMITS.items():
        if limit := getattr(reply.limits, name):
            table.add_row(_render_label(label), f"at most {pluralize(limit, noun)}")
    if reply.HasField("read_load"):
        reads = reply.read_load
        now = f"{reads.running:,} running, {reads.waiting:,} waiting, {reads.rejected:,} rejected since startup"
        table.add_row(_render_label("Expensive reads"), now)
    return [table]


def describe_embedding_model(reply: server_service_pb2.GetServerInfoResponse) -> str:
    """Return the name and dimension of the embedding model; empty if there is none."""
    model = to_single_line(reply.embedding_model)
    return f"{model}, {pluralize(reply.embedding_dimension, 'dimension')}" if model else ""


def render_import_summary_lines(done: ImportSummary) -> Iterator[Text]:
    """Render an import summary: file, format, nonzero counts, ignored fields and rejection reasons."""
    totals = done.counts
    yield Text.assemble(
        (to_single_line(done.source), "bold"), f"  {done.title}", ("  dry run" if done.dry_run else "", "yellow")
    )
    counts = [
        (totals.sent if done.dry_run else None, "to store", "green"),
        (totals.created, "created", "green"),
        (totals.unchanged, "unchanged", "dim"),
        (totals.replaced, "replaced", "cyan"),
        (totals.skipped, "skipped", "dim"),
        (totals.rejected, "rejected", "red"),
    ]
    shown = [Text(f"{number:,} {word}", style=style) for number, word, style in counts if number]
    yield Text("  ").append_text(Text(", ").join(shown) if shown else Text("no messages", style="yellow"))
    if done.ignored:
        fields = ", ".join(f"{to_single_line(name)} ({number:,})" for name, number in sorted(done.ignored.items()))
        yield Text(f"  Ignored fields: {fields}", style="yellow")
    groups = sorted(done.rejection_groups.items(), key=lambda item: -item[1].count)
    for reason, group in groups[:_REASONS_SHOWN]:
        yield Text(
            f"  {group.count:,} × {to_single_line(reason)} (first at {_describe_location(group.first)})", style="red"
        )
    if done.rejects:
        yield Text(f"  Rejected messages and reasons: {to_single_line(str(done.rejects))}", style="red")


def _describe_location(location: SourceLocation) -> str:
    element = f", {location.element}" if location.element else ""
    return to_single_line(f"{location.unit} {location.number}{element}")


def render_diagnosis_tables(result: Diagnosis) -> Iterable[Table]:
    """Render the checks, each with its advice below the finding."""
    table = Table.grid(padding=(0, 2))
    for check in result.checks:
        sign, style = _STATES[check.state]
        finding = Text(to_single_line(check.finding))
        if check.advice:
            finding.append(f"\n{check.advice}", style="yellow" if check.state == "warn" else style)
        table.add_row(Text(sign, style=f"bold {style}"), Text(check.name), finding)
    return [table]


def render_conversation_tables(reply: query_service_pb2.ListConversationsResponse) -> Iterable[RenderableType]:
    """Render conversations with first and last time, message count and id."""
    if not reply.conversations:
        return [Text("No conversations found.", style="dim")]
    table = Table("first", "last", "messages", "conversation", box=None, pad_edge=False)
    table.columns[2].justify = "right"
    for entry in reply.conversations:
        count = f"{entry.message_count:,}"
        table.add_row(
            _format_minute(entry.first_ts), _format_minute(entry.last_ts), count, _render_id(entry.conversation_id)
        )
    return [table]


def render_user_tables(reply: query_service_pb2.ListUsersResponse) -> Iterable[RenderableType]:
    """Render users with message count and id."""
    if not reply.users:
        return [Text("No user has messages.", style="dim")]
    table = Table("messages", "user", box=None, pad_edge=False)
    table.columns[0].justify = "right"
    for entry in reply.users:
        table.add_row(f"{entry.message_count:,}", _render_id(entry.user_id))
    return [table]


def render_count_lines(result: MessageCount) -> Iterable[Text]:
    """Render a message count."""
    return [Text(f"{pluralize(result.count, 'message')}.")]


def render_export_lines(done: ExportSummary) -> Iterable[Text]:
    """Render an export summary."""
    return [
        Text(f"{to_single_line(done.file)}: {pluralize(done.messages, 'message')} of {pluralize(done.users, 'user')}.")
    ]


def render_deletion_lines(reply: ingest_service_pb2.DeleteMessagesResponse) -> Iterator[Text]:
    """Render the number of deleted messages, and the ids that were not found."""
    yield Text(f"Deleted {pluralize(reply.deleted, 'message')}.")
    for message_id in reply.missing_message_ids:
        yield Text(f"  Not found: {to_single_line(message_id)}", style="yellow")


def render_erasure_lines(reply: ingest_service_pb2.EraseUserResponse) -> Iterator[RenderableType]:
    """Render an erasure receipt, with the storage that still contains bytes of the messages."""
    erased_at = reply.erase_ts.ToDatetime(tzinfo=UTC)
    yield Text(f"Erased at {erased_at:{_TIME_FORMAT}}: {pluralize(reply.deleted, 'message')}.")
    if reply.residues:
        yield Text("The data of this user can no longer be read. Bytes remain in:")
    for residue in reply.residues:
        deadline = (
            f" By {residue.purge_ts.ToDatetime(tzinfo=UTC):{_TIME_FORMAT}}." if residue.HasField("purge_ts") else ""
        )
        location = _format_enum_label(ingest_service_pb2.StorageLocation.Name(residue.location), "STORAGE_LOCATION_")
        yield Padding(Text(f"{location}: {residue.detail}{deadline}", style="dim"), (0, 0, 0, 2))


def _format_minute(ts: Timestamp) -> str:
    return f"{ts.ToDatetime(tzinfo=UTC):%Y-%m-%d %H:%M}"


def _render_id(text: str) -> Text:
    return Text(to_single_line(text), overflow="fold")


def _render_label(text: str) -> Text:
    return Text(text, style="bold")


def _render_progress(index: ingest_service_pb2.IndexStatus) -> Text:
    parts = []
    if index.pending:
        parts.append(Text(f"{pluralize(index.pending, 'message')} pending", style="yellow"))
    elif not index.error:
        parts.append(Text("up to date", style="green"))
    if index.notice:
        parts.append(Text("rebuilt since startup", style="yellow"))
    if index.dead_letters:
        parts.append(Text(f"{index.dead_letters:,} cannot be indexed", style="red"))
    if index.error:
        parts.append(Text(f"retrying after {to_single_line(index.error)}", style="red"))
    return Text(", ").join(parts)


def describe_fault(fault: ingest_service_pb2.ServerFault) -> str:
    """Return the component of a fault with its detail, or with its kind if the fault has no detail."""
    component = _format_enum_label(ingest_service_pb2.Component.Name(fault.component), "COMPONENT_")
    kind = _format_enum_label(ingest_service_pb2.FaultKind.Name(fault.kind), "FAULT_KIND_")
    owner = " of the previous model" if fault.previous_model else ""
    return f"{component}{owner}: {to_single_line(fault.detail) or kind}"


def _format_enum_label(value: str, prefix: str) -> str:
    """Return the name of an enum value as words, without its prefix."""
    return value.removeprefix(prefix).lower().replace("_", " ")


def _render_embedder(embedder: ingest_service_pb2.EmbedderStatus) -> tuple[Text, Text]:
    facts = f"{pluralize(embedder.dimension, 'dimension')}, {pluralize(embedder.texts_embedded, 'text')} since startup"
    kind = _format_enum_label(ingest_service_pb2.EmbedderKind.Name(embedder.kind), "EMBEDDER_KIND_")
    return Text(f"{kind}: {to_single_line(embedder.model)}"), Text(facts, style="dim")


RENDERERS: Final[Mapping[type, Callable[[Any], Iterable[RenderableType]]]] = {
    ingest_service_pb2.GetIndexStatusResponse: render_status_tables,
    ingest_service_pb2.DeleteMessagesResponse: render_deletion_lines,
    ingest_service_pb2.EraseUserResponse: render_erasure_lines,
    query_service_pb2.ListConversationsResponse: render_conversation_tables,
    query_service_pb2.ListUsersResponse: render_user_tables,
    server_service_pb2.GetServerInfoResponse: render_server_info_tables,
    MessageCount: render_count_lines,
    Diagnosis: render_diagnosis_tables,
    ExportSummary: render_export_lines,
    ImportSummary: render_import_summary_lines,
}
"""Renderer for each result type."""
