"""Has the calls of a server's parts be spans, where there are traces. Elsewhere the parts are what they were."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sized
from typing import Any, Final, TypeVar, cast

from opentelemetry.trace import Span, SpanKind

from nomemory.server.embedding.factory import NoEmbedder
from nomemory.server.embedding.protocol import Embedder
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.lexical.protocol import LexicalIndex
from nomemory.server.search.semantic.protocol import VectorSearch
from nomemory.server.store.protocol import LogReader, LogWriter
from nomemory.spans.span import Value, show, span

_Part = TypeVar("_Part")
Call = Callable[..., Awaitable[Any]]
"""A method of a part. Any: each has its own types, which stay as they are."""
Note = Callable[[Span, tuple[Any, ...], Any], None]
"""Says more of a call on its span: `(span, arguments, answer)`."""

OPERATION: Final = "gen_ai.operation.name"
RECORDS: Final = "gen_ai.memory.record.count"
QUERY: Final = "gen_ai.memory.query.text"
STORE: Final = "gen_ai.memory.store.id"
MODEL: Final = "gen_ai.request.model"
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
_WORDS: Final = ("freeze", "search", "total", "postings")
_VECTORS: Final = ("search", "vectors")


def traced_log(log: LogReader, settings: Settings) -> LogReader:
    """Return the log whose reads are spans."""
    return _engine(log, "log", "sqlite" if settings.server.database_url is None else "postgresql", _READS, settings)


def traced_words(words: LexicalIndex, settings: Settings) -> LexicalIndex:
    """Return the lexical index whose searches are spans."""
    return _engine(words, "words", "tantivy" if settings.server.database_url is None else "postgresql", _WORDS, settings)


def traced_vectors(vectors: VectorSearch, settings: Settings) -> VectorSearch:
    """Return the vector index whose searches are spans."""
    return _engine(vectors, "vectors", "qdrant", _VECTORS, settings)


def traced_embedder(embedder: Embedder, settings: Settings) -> Embedder:
    """Return the model whose calls are spans."""
    if embedder.kind == NoEmbedder.kind:
        return embedder
    said: dict[str, Value] = {
        OPERATION: "embeddings",
        MODEL: embedder.model,
        "gen_ai.embeddings.dimension.count": embedder.dimension,
    }
    if embedder.kind == "openai":
        said["gen_ai.provider.name"] = "openai"
    name = f"embeddings {embedder.model}"
    methods = ("embed_query", "embed_documents")
    calls = {of: _in_span(getattr(embedder, of), name, said, kind=SpanKind.CLIENT) for of in methods}
    return _traced(embedder, calls, settings)


def traced_search(search: _Part, method: str, settings: Settings) -> _Part:
    """Return a search whose calls are spans: its answer has `items`, its query perhaps a `text`."""
    said: dict[str, Value] = {OPERATION: "search_memory", "nomemory.search": type(search).__name__}
    call = _in_span(getattr(search, method), "search_memory", said, _note_search)
    return _traced(search, {method: call}, settings)


def traced_changes(log: LogWriter, settings: Settings) -> LogWriter:
    """Return the log whose changes are spans."""
    changes: Mapping[str, tuple[str, Note]] = {
        "write": ("upsert_memory", _note_messages),
        "delete": ("delete_memory", _note_ids),
        "delete_matching": ("delete_memory", _note_store),
        "erase": ("delete_memory_store", _note_store),
    }
    calls = {of: _in_span(getattr(log, of), name, {OPERATION: name}, note) for of, (name, note) in changes.items()}
    return _traced(log, calls, settings)


class _Traced:
    """A part, some methods of which are spans. Everything else is as it was.

    Args:
        within: the part.
        replaced: what stands in the place of methods.
    """

    def __init__(self, within: object, replaced: Mapping[str, Call]) -> None:
        self._within = within
        for name, call in replaced.items():
            setattr(self, name, call)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the part has it
        return getattr(self._within, name)


def _traced(within: _Part, replaced: Mapping[str, Call], settings: Settings) -> _Part:
    return cast("_Part", _Traced(within, replaced)) if settings.tracing.is_on else within


def _engine(within: _Part, name: str, system: str, methods: Iterable[str], settings: Settings) -> _Part:
    """Return an engine each of whose calls is a span: `log page`, `words search`."""
    replaced: dict[str, Call] = {}
    for method in methods:
        said: dict[str, Value] = {"db.system.name": system, "db.operation.name": method}
        replaced[method] = _in_span(getattr(within, method), f"{name} {method}", said, _note_rows, SpanKind.CLIENT)
    return _traced(within, replaced, settings)


def _in_span(
    call: Call, name: str, said: Mapping[str, Value], note: Note | None = None, kind: SpanKind = SpanKind.INTERNAL
) -> Call:
    """Return a call that is a span of that name with these attributes, where anything is recorded."""

    async def made(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as `Call`
        with span(name, kind, said) as recorded:
            answer = await call(*arguments, **named)
            if recorded is not None and note is not None:
                note(recorded, arguments, answer)
            return answer

    return made


def _note_rows(made: Span, _arguments: tuple[Any, ...], answer: Any) -> None:  # noqa: ANN401 - as `Note`
    if isinstance(answer, Sized) and not isinstance(answer, tuple):  # whose fields are no rows
        made.set_attribute("db.response.returned_rows", len(answer))


def _note_search(made: Span, arguments: tuple[Any, ...], answer: Any) -> None:  # noqa: ANN401 - as `Note`
    made.set_attribute(RECORDS, len(answer.items))
    for argument in arguments:
        if isinstance(text := getattr(argument, "text", None), str):
            show(made, QUERY, text)
        if isinstance(user_id := getattr(argument, "user_id", None), str):
            show(made, STORE, user_id)


def _note_messages(made: Span, arguments: tuple[Any, ...], _answer: object) -> None:
    made.set_attribute(RECORDS, len(arguments[0]))


def _note_ids(made: Span, arguments: tuple[Any, ...], _answer: object) -> None:
    made.set_attribute(RECORDS, len(arguments[1]))
    _note_store(made, arguments, _answer)


def _note_store(made: Span, arguments: tuple[Any, ...], _answer: object) -> None:
    show(made, STORE, arguments[0])
