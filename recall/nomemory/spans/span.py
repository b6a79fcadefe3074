"""Create the OpenTelemetry spans of an API call.

A function can call `start_child_span` whether or not a trace is recorded. If no trace is recorded, `start_child_span`
costs only a context lookup. Failed spans record the exception class only, because an exception text may contain message
content.
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

AttributeValue = str | int | float | bool
"""A span attribute value. It must not contain message content; use `set_content_attribute` for content."""
ERROR_TYPE: Final = "error.type"
_CALL: Final = create_key("nomemory-call")
_W3C: Final = TraceContextTextMapPropagator()
_NO_SPAN: Final = nullcontext()


@dataclass(slots=True)
class TracedCall:
    """An API call, with its root span and the tracer of its child spans. Tasks that outlive the call create no spans.

    Attributes:
        span: the root span in this process. The trace has an id even if the root span is not recorded.
        tracer: creates the child spans.
        shows_content: whether attributes may contain messages, questions and user ids.
    """

    span: Span
    tracer: Tracer
    shows_content: bool
    is_over: bool = False

    def end_span(self, *, failed: bool) -> None:
        """End the root span, unless it has already ended."""
        if self.is_over:
            return
        self.is_over = True
        if failed:
            self.span.set_status(StatusCode.ERROR)
        self.span.end()


class CallTracer:
    """Creates the root span of each call in this process.

    Args:
        shows_content: whether attributes may contain messages, questions and user ids.
    """

    def __init__(self, tracer: Tracer, *, shows_content: bool = False) -> None:
        self._tracer = tracer
        self._shows_content = shows_content

    def start_call(
        self,
        name: str,
        metadata: Iterable[tuple[str, str | bytes]],
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> TracedCall:
        """Start the root span of a call, and make it the current span.

        The span joins the trace of the W3C `traceparent` in `metadata`, if any.
        """
        parent = _W3C.extract({key: value for key, value in metadata if isinstance(value, str) and key in _W3C.fields})
        root = self._tracer.start_span(name, parent, SpanKind.SERVER, attributes)
        call = TracedCall(root, self._tracer, self._shows_content)
        attach(set_value(_CALL, call, set_span_in_context(root, parent)))
        return call


def start_child_span(
    name: str, kind: SpanKind = SpanKind.INTERNAL, attributes: Mapping[str, AttributeValue] | None = None
) -> AbstractContextManager[Span | None]:
    """Return a context manager that yields a new child span, or None if the call is not recorded."""
    call = _get_current_call()
    if call is None or not get_current_span().is_recording():
        return _NO_SPAN
    return _record_child_span(call.tracer, name, kind, attributes)


@contextmanager
def _record_child_span(
    tracer: Tracer, name: str, kind: SpanKind, attributes: Mapping[str, AttributeValue] | None
) -> Iterator[Span]:
    with tracer.start_as_current_span(
        name, kind=kind, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as child:
        try:
            yield child
        except BaseException as error:
            child.set_attribute(ERROR_TYPE, type(error).__name__)
            child.set_status(StatusCode.ERROR)
            raise


def is_content_shown() -> bool:
    """Return whether attributes of the current span may contain message content."""
    call = _get_current_call()
    return call is not None and call.shows_content


def set_content_attribute(current: Span, name: str, content: str) -> None:
    """Set a span attribute to message content, if the configuration allows content in spans."""
    if is_content_shown():
        current.set_attribute(name, content)


def get_trace_fields() -> dict[str, str]:
    """Return the log fields that identify the current trace."""
    call = _get_current_call()
    return {} if call is None else {"trace_id": format_trace_id(call.span.get_span_context().trace_id)}


def build_trace_metadata() -> tuple[tuple[str, str], ...]:
    """Return the W3C trace context headers of the current span, for a call to another process."""
    if _get_current_call() is None:
        return ()
    headers: dict[str, str] = {}
    _W3C.inject(headers)
    return tuple(headers.items())


def _get_current_call() -> TracedCall | None:
    call = get_value(_CALL)
    return call if isinstance(call, TracedCall) and not call.is_over else None
