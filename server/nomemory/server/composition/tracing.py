"""Starts what records spans and what sends them.

Has the calls of a server's parts be spans, where there are traces. Elsewhere the parts are what they were.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sized
from contextlib import AsyncExitStack
from typing import Any, Final, TypeVar

from nomemory.server.embedding.factory import NoEmbedder
from nomemory.server.embedding.protocol import Embedder
from nomemory.server.lexical.protocol import LexicalIndex
from nomemory.server.log.protocol import LogReader, LogWriter
from nomemory.server.metrics.meters import Meters
from nomemory.server.processes.watch import Patience, Vigil
from nomemory.server.settings import Settings
from nomemory.server.standing_faults import StandingFaults
from nomemory.server.tracing.factory import ExporterProcess, collector_of
from nomemory.server.tracing.span_export import Deliver, SpanExport, SpanQueue
from nomemory.server.tracing.traced import in_span, traced_engine, traced_part
from nomemory.server.vector.protocol import VectorSearch
from nomemory.spans.span import Kind, Span, Value
from nomemory.spans.tracer import Sampling, Tracer

_LAST_S: Final = 3.0
"""How long a process that ends may take to send what is left."""


def start_exporter(settings: Settings, faults: StandingFaults, meters: Meters, stack: AsyncExitStack) -> Deliver | None:
    """Make what sends spans to the collector; the stack ends it. None: there are no traces.

    Raises:
        TracingSettingsError: the settings do not describe a collector.
        OSError: the file of certificates cannot be read.
    """
    collector = collector_of(settings)
    if collector is None:
        return None
    exporter = ExporterProcess(collector, Vigil(Patience.of(settings), faults, meters.roster))
    stack.push_async_callback(exporter.close)
    starting = asyncio.create_task(exporter.start(), name="span-exporter")
    stack.push_async_callback(asyncio.wait, [starting])
    stack.callback(starting.cancel)
    return exporter.deliver


def start_tracer(settings: Settings, deliver: Deliver | None, meters: Meters, stack: AsyncExitStack) -> Tracer | None:
    """Make what begins the spans of this process, and send them from now on; the stack sends the last ones."""
    if deliver is None:
        return None
    most, batch_max = settings.tracing.queue_max, settings.tracing.batch_max
    queue = SpanQueue(meters.process, most, batch_max, shows_content=settings.tracing.content)
    meters.also(queue.tell)
    export = SpanExport(queue, deliver, settings.tracing.flush_s)
    task = asyncio.create_task(export.run(), name="span-export")
    stack.push_async_callback(_end, export, task)
    return Tracer(Sampling(settings.tracing.ratio, settings.tracing.callers_decide), queue)


async def _end(export: SpanExport, task: asyncio.Task[None]) -> None:
    export.stop()
    await asyncio.wait([task], timeout=_LAST_S)
    task.cancel()


OPERATION: Final = "gen_ai.operation.name"
RECORDS: Final = "gen_ai.memory.record.count"
QUERY: Final = "gen_ai.memory.query.text"
STORE: Final = "gen_ai.memory.store.id"
_READS: Final = (
    "page",
    "first_wires",
    "wires",
    "count",
    "conversations",
    "users",
    "by_ids",
    "by_sequences",
    "around",
    "surroundings",
)
_WORDS: Final = ("weigh", "search", "total", "postings")
_VECTORS: Final = ("search", "vectors")
_Search = TypeVar("_Search")


def traced_log(log: LogReader, settings: Settings) -> LogReader:
    """Return the log whose reads are spans."""
    system = "sqlite" if settings.server.log is None else "postgresql"
    return traced_engine(log, "log", system, _READS) if settings.tracing.is_on else log


def traced_words(words: LexicalIndex, settings: Settings) -> LexicalIndex:
    """Return the lexical index whose searches are spans."""
    engine = "tantivy" if settings.server.log is None else "postgresql"
    return traced_engine(words, "words", engine, _WORDS) if settings.tracing.is_on else words


def traced_vectors(vectors: VectorSearch, settings: Settings) -> VectorSearch:
    """Return the vector index whose searches are spans."""
    return traced_engine(vectors, "vectors", "qdrant", _VECTORS) if settings.tracing.is_on else vectors


def traced_embedder(embedder: Embedder, settings: Settings) -> Embedder:
    """Return the model whose calls are spans."""
    if not settings.tracing.is_on or embedder.kind == NoEmbedder.kind:
        return embedder
    said: dict[str, Value] = {
        OPERATION: "embeddings",
        "gen_ai.request.model": embedder.model,
        "gen_ai.embeddings.dimension.count": embedder.dimension,
    }
    if embedder.kind == "openai":
        said["gen_ai.provider.name"] = "openai"
    name = f"embeddings {embedder.model}"
    calls = {
        method: in_span(getattr(embedder, method), name, said, kind=Kind.CLIENT)
        for method in ("embed_query", "embed_documents")
    }
    return traced_part(embedder, calls)


def traced_search(search: _Search, method: str, settings: Settings) -> _Search:
    """Return a search whose calls are spans: its answer has `items`, its query perhaps a `text`."""
    if not settings.tracing.is_on:
        return search
    said: dict[str, Value] = {OPERATION: "search_memory", "nomemory.search": type(search).__name__}
    return traced_part(search, {method: in_span(getattr(search, method), "search_memory", said, _note_search)})


def traced_changes(log: LogWriter, settings: Settings) -> LogWriter:
    """Return the log whose changes are spans."""
    if not settings.tracing.is_on:
        return log
    changes = {
        "write": in_span(log.write, "upsert_memory", {OPERATION: "upsert_memory"}, _note_messages),
        "delete": in_span(log.delete, "delete_memory", {OPERATION: "delete_memory"}, _note_ids),
        "delete_matching": in_span(log.delete_matching, "delete_memory", {OPERATION: "delete_memory"}, _note_store),
        "erase": in_span(log.erase, "delete_memory_store", {OPERATION: "delete_memory_store"}, _note_store),
    }
    return traced_part(log, changes)


def _note_search(span: Span, arguments: tuple[Any, ...], answer: Any) -> None:  # noqa: ANN401 - as `Note`
    span.attributes[RECORDS] = len(answer.items)
    if span.shows_content:
        for argument in arguments:
            if isinstance(text := getattr(argument, "text", None), str):
                span.show(QUERY, text)
            if isinstance(user_id := getattr(argument, "user_id", None), str):
                span.show(STORE, user_id)


def _note_messages(span: Span, arguments: tuple[Any, ...], _answer: object) -> None:
    _note_count(span, arguments[0])


def _note_ids(span: Span, arguments: tuple[Any, ...], _answer: object) -> None:
    _note_count(span, arguments[1])
    span.show(STORE, arguments[0])


def _note_store(span: Span, arguments: tuple[Any, ...], _answer: object) -> None:
    span.show(STORE, arguments[0])


def _note_count(span: Span, records: object) -> None:
    if isinstance(records, Sized):
        span.attributes[RECORDS] = len(records)
