"""Has the calls of a server's parts be spans, where there are traces. Elsewhere the parts are what they were."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, Final, TypeVar

from nomemory.server.embedding.factory import NoEmbedder
from nomemory.server.embedding.protocol import Embedder
from nomemory.server.lexical.protocol import LexicalIndex
from nomemory.server.log.protocol import LogReader, LogWriter
from nomemory.server.reranking.reranker import Reranker
from nomemory.server.settings import Settings
from nomemory.server.tracing.traced import in_span, traced_engine, traced_part
from nomemory.server.vector.protocol import VectorSearch
from nomemory.spans.span import Kind, Span, Value

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


def traced_reranker(reranker: Reranker, settings: Settings) -> Reranker:
    """Return the reranker whose calls are spans."""
    if not settings.tracing.is_on:
        return reranker
    said: dict[str, Value] = {OPERATION: "rerank", "gen_ai.request.model": settings.reranker.model}
    return traced_part(reranker, {"scores": in_span(reranker.scores, "rerank", said, kind=Kind.CLIENT)})


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
