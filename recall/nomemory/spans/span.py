"""What a call does, as a tree of OpenTelemetry's spans.

Whoever does a piece of work says so with `span(…)`, and need not know whether anybody records it. Where nobody does,
that costs a look at one variable. An error is told by its kind, never by its words: they may quote a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Final

from opentelemetry.context import attach, create_key, get_value, set_value
from opentelemetry.trace import (
    Span,
    SpanKind,
    StatusCode,
    Tracer,
    format_trace_id,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

Value = str | int | float | bool
"""The value of an attribute: of few different ones, and never content, see `show`."""
ERROR_TYPE: Final = "error.type"
_CALL: Final = create_key("nomemory-call")
_W3C: Final = TraceContextTextMapPropagator()
_NOTHING: Final = nullcontext()


@dataclass(slots=True)
class TracedCall:
    """What this process does for a call. A task that outlives it is part of no trace any more.

    Attributes:
        span: the first one of this process. Its trace has an id even where nobody records it.
        tracer: begins further spans.
        shows_content: whether attributes may hold what people have said and asked.
        is_over: whether it has ended.
    """

    span: Span
    tracer: Tracer
    shows_content: bool
    is_over: bool = False

    def end(self, *, failed: bool) -> None:
        """End it, once."""
        if self.is_over:
            return
        self.is_over = True
        if failed:
            self.span.set_status(StatusCode.ERROR)
        self.span.end()


class CallTracer:
    """Begins the first span that this process has of a call.

    Args:
        tracer: of OpenTelemetry.
        shows_content: whether attributes may hold content.
    """

    def __init__(self, tracer: Tracer, *, shows_content: bool = False) -> None:
        self._tracer = tracer
        self._shows_content = shows_content

    def begin(
        self,
        name: str,
        metadata: Iterable[tuple[str, str | bytes]],
        attributes: Mapping[str, Value] | None = None,
    ) -> TracedCall:
        """Begin it in the trace that the metadata names as W3C does, or in a new one; what follows is part of it."""
        around = _W3C.extract({key: value for key, value in metadata if isinstance(value, str) and key in _W3C.fields})
        made = self._tracer.start_span(name, around, SpanKind.SERVER, attributes)
        call = TracedCall(made, self._tracer, self._shows_content)
        attach(set_value(_CALL, call, set_span_in_context(made, around)))
        return call


def span(
    name: str, kind: SpanKind = SpanKind.INTERNAL, attributes: Mapping[str, Value] | None = None
) -> AbstractContextManager[Span | None]:
    """Begin a piece of the current work; as a context it is a span, or None where nothing is recorded."""
    call = _call()
    if call is None or not get_current_span().is_recording():
        return _NOTHING
    return _recorded(call.tracer, name, kind, attributes)


@contextmanager
def _recorded(tracer: Tracer, name: str, kind: SpanKind, attributes: Mapping[str, Value] | None) -> Iterator[Span]:
    with tracer.start_as_current_span(
        name, kind=kind, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as made:
        try:
            yield made
        except BaseException as error:
            made.set_attribute(ERROR_TYPE, type(error).__name__)
            made.set_status(StatusCode.ERROR)
            raise


def shows_content() -> bool:
    """Return whether attributes of the current span may hold content."""
    call = _call()
    return call is not None and call.shows_content


def show(made: Span, name: str, content: str) -> None:
    """Set an attribute that holds content, if content may be shown."""
    if shows_content():
        made.set_attribute(name, content)


def trace_fields() -> dict[str, str]:
    """Return what a line of the log says of the trace that it belongs to."""
    call = _call()
    return {} if call is None else {"trace_id": format_trace_id(call.span.get_span_context().trace_id)}


def outgoing_metadata() -> tuple[tuple[str, str], ...]:
    """Return what a call to another process carries, W3C's headers of the current span; nothing outside of a trace."""
    if _call() is None:
        return ()
    carried: dict[str, str] = {}
    _W3C.inject(carried)
    return tuple(carried.items())


def _call() -> TracedCall | None:
    found = get_value(_CALL)
    return found if isinstance(found, TracedCall) and not found.is_over else None
