"""Wrappers that add tracing spans to components.

If tracing is disabled, the functions return the component unchanged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sized
from typing import Any, Final, TypeVar, cast

from opentelemetry.trace import Span, SpanKind

from nomemory.server.embedding.factory import DisabledEmbedder
from nomemory.server.embedding.protocol import Embedder
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.lexical.protocol import LexicalIndex
from nomemory.server.search.semantic.protocol import VectorSearch
from nomemory.server.store.protocol import LogReader, LogWriter
from nomemory.spans.span import AttributeValue, set_content_attribute, start_child_span

_Component = TypeVar("_Component")
Method = Callable[..., Awaitable[Any]]
"""A method of a component."""
Annotate = Callable[[Span, tuple[Any, ...], Any], None]
"""Sets attributes of a span from `(span, arguments, result)`."""

OPERATION: Final = "gen_ai.operation.name"
RECORDS: Final = "gen_ai.memory.record.count"
QUERY: Final = "gen_ai.memory.query.text"
STORE: Final = "gen_ai.memory.store.id"
MODEL: Final = "gen_ai.request.model"
_READ_SPANS: Final = {
    "read_page": "list messages",
    "read_first_encoded_page": "list messages",
    "read_encoded_page": "list messages",
    "count_messages": "count messages",
    "list_conversations": "list conversations",
    "list_users": "list users",
    "read_messages": "get messages",
    "read_versions": "get messages",
    "read_neighbors": "get neighbors",
    "read_encoded_neighbors": "get neighbors",
}
_LEXICAL_SPANS: Final = {
    "freeze": "lexical statistics",
    "search": "lexical search",
    "count_messages": "lexical count",
    "read_postings": "lexical postings",
}
_VECTOR_SPANS: Final = {"search": "vector search", "read_vectors": "vector lookup"}
"""Span names by method."""


def trace_log_reader(log: LogReader, settings: Settings) -> LogReader:
    """Return a log reader that creates a span for each read."""
    system = "sqlite" if settings.server.database_url is None else "postgresql"
    return _trace_engine(log, system, _READ_SPANS, settings)


def trace_lexical_index(index: LexicalIndex, settings: Settings) -> LexicalIndex:
    """Return a lexical index that creates a span for each search."""
    system = "tantivy" if settings.server.database_url is None else "postgresql"
    return _trace_engine(index, system, _LEXICAL_SPANS, settings)


def trace_vector_index(index: VectorSearch, settings: Settings) -> VectorSearch:
    """Return a vector index that creates a span for each search."""
    return _trace_engine(index, "qdrant", _VECTOR_SPANS, settings)


def trace_embedder(embedder: Embedder, settings: Settings) -> Embedder:
    """Return an embedder that creates a span for each call."""
    if embedder.kind == DisabledEmbedder.kind:
        return embedder
    attributes: dict[str, AttributeValue] = {
        OPERATION: "embeddings",
        MODEL: embedder.model,
        "gen_ai.embeddings.dimension.count": embedder.dimension,
    }
    if embedder.kind == "openai":
        attributes["gen_ai.provider.name"] = "openai"
    name = f"embeddings {embedder.model}"
    methods = {
        method: _wrap_in_span(getattr(embedder, method), name, attributes, kind=SpanKind.CLIENT)
        for method in ("embed_query", "embed_documents")
    }
    return _trace_component(embedder, methods, settings)


def trace_search(search: _Component, method: str, settings: Settings) -> _Component:
    """Return a search that creates a span for each call of `method`, whose result must have the attribute `items`."""
    attributes: dict[str, AttributeValue] = {OPERATION: "search_memory", "nomemory.search": type(search).__name__}
    traced = _wrap_in_span(getattr(search, method), "search_memory", attributes, _annotate_search)
    return _trace_component(search, {method: traced}, settings)


def trace_log_writer(log: LogWriter, settings: Settings) -> LogWriter:
    """Return a log writer that creates a span for each change."""
    operations: Mapping[str, tuple[str, Annotate]] = {
        "write": ("upsert_memory", _annotate_write),
        "delete": ("delete_memory", _annotate_delete),
        "delete_matching": ("delete_memory", _annotate_user),
        "erase": ("delete_memory_store", _annotate_user),
    }
    methods = {
        method: _wrap_in_span(getattr(log, method), name, {OPERATION: name}, annotate)
        for method, (name, annotate) in operations.items()
    }
    return _trace_component(log, methods, settings)


class _TracedProxy:
    """A proxy of a component that replaces some of its methods.

    Args:
        component: the component that the proxy delegates to.
        methods: the methods that replace those of the component, by name.
    """

    def __init__(self, component: object, methods: Mapping[str, Method]) -> None:
        self._component = component
        for name, method in methods.items():
            setattr(self, name, method)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute of the component
        return getattr(self._component, name)


def _trace_component(component: _Component, methods: Mapping[str, Method], settings: Settings) -> _Component:
    return cast("_Component", _TracedProxy(component, methods)) if settings.tracing.is_enabled else component


def _trace_engine(component: _Component, system: str, span_names: Mapping[str, str], settings: Settings) -> _Component:
    """Return a storage engine that creates a span for each call of a method in `span_names`."""
    traced_methods: dict[str, Method] = {}
    for method, name in span_names.items():
        attributes: dict[str, AttributeValue] = {"db.system.name": system, "db.operation.name": method}
        traced_methods[method] = _wrap_in_span(
            getattr(component, method), name, attributes, _annotate_rows, SpanKind.CLIENT
        )
    return _trace_component(component, traced_methods, settings)


def _wrap_in_span(
    method: Method,
    name: str,
    attributes: Mapping[str, AttributeValue],
    annotate: Annotate | None = None,
    kind: SpanKind = SpanKind.INTERNAL,
) -> Method:
    """Return a method that calls `method` in a span."""

    async def run_in_span(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as `Method`
        with start_child_span(name, kind, attributes) as current:
            result = await method(*args, **kwargs)
            if current is not None and annotate is not None:
                annotate(current, args, result)
            return result

    return run_in_span


def _annotate_rows(current: Span, _arguments: tuple[Any, ...], result: Any) -> None:  # noqa: ANN401 - as `Annotate`
    if isinstance(result, Sized) and not isinstance(result, tuple):  # the fields of a named tuple are not rows
        current.set_attribute("db.response.returned_rows", len(result))


def _annotate_search(current: Span, arguments: tuple[Any, ...], result: Any) -> None:  # noqa: ANN401 - as `Annotate`
    current.set_attribute(RECORDS, len(result.items))
    for argument in arguments:
        if isinstance(text := getattr(argument, "text", None), str):
            set_content_attribute(current, QUERY, text)
        if isinstance(user_id := getattr(argument, "user_id", None), str):
            set_content_attribute(current, STORE, user_id)


def _annotate_write(current: Span, arguments: tuple[Any, ...], _result: object) -> None:
    current.set_attribute(RECORDS, len(arguments[0]))


def _annotate_delete(current: Span, arguments: tuple[Any, ...], _result: object) -> None:
    current.set_attribute(RECORDS, len(arguments[1]))
    _annotate_user(current, arguments, _result)


def _annotate_user(current: Span, arguments: tuple[Any, ...], _result: object) -> None:
    set_content_attribute(current, STORE, arguments[0])
