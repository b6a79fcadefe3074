"""Tests for child spans, trace context and span attributes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.context import attach, detach
from opentelemetry.context.context import Context
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id
from spans.recorded_spans import Kept

from nomemory.spans.span import (
    TracedCall,
    build_trace_metadata,
    get_trace_fields,
    set_content_attribute,
    start_child_span,
)

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{PARENT}-01"
NONSENSE = (
    "",
    "nonsense",
    GOOD[:-1],
    f"{GOOD}-more",
    f"ff-{TRACE}-{PARENT}-01",
    f"00-{'0' * 32}-{PARENT}-01",
    f"00-{TRACE}-{'0' * 16}-01",
    f"00-{TRACE}-{PARENT}-0x",
)


@pytest.fixture(autouse=True)
def _no_trace() -> Iterator[None]:
    """Run a test outside any trace, and leave none behind."""
    token = attach(Context())
    yield
    detach(token)


def trace_of(call: TracedCall) -> str:
    return format_trace_id(call.span.get_span_context().trace_id)


def test_call_continues_the_trace_of_its_caller() -> None:
    kept = Kept(0)
    call = kept.tracer.start_call("call", [("traceparent", GOOD), ("tracestate", "a=1"), ("other", b"bytes")])
    assert trace_of(call) == TRACE
    call.end_span(failed=False)
    (recorded,) = kept.spans
    assert recorded.parent is not None
    assert format_span_id(recorded.parent.span_id) == PARENT
    assert call.span.get_span_context().trace_state.to_header() == "a=1"


@pytest.mark.parametrize("text", NONSENSE)
def test_invalid_trace_context_starts_a_new_trace(text: str) -> None:
    assert trace_of(Kept().tracer.start_call("call", [("traceparent", text)])) != TRACE


def test_outgoing_trace_context_is_read_by_the_next_server() -> None:
    kept = Kept()
    began = kept.tracer.start_call("call", [("traceparent", GOOD), ("tracestate", "a=1")])
    sent = build_trace_metadata()
    assert dict(sent)["tracestate"] == "a=1"
    kept.tracer.start_call("further", sent).end_span(failed=False)
    (further,) = kept.spans
    assert further.parent is not None
    assert further.parent.span_id == began.span.get_span_context().span_id


def test_no_trace_context_is_sent_outside_a_trace() -> None:
    assert build_trace_metadata() == ()


def test_unrecorded_trace_has_an_id_and_no_spans() -> None:
    kept = Kept(0)
    began = kept.tracer.start_call("call", ())
    assert get_trace_fields() == {"trace_id": trace_of(began)}
    with start_child_span("work") as work:
        assert work is None
    assert int(dict(build_trace_metadata())["traceparent"][-2:], 16) & 1 == 0
    began.end_span(failed=False)
    assert kept.spans == ()


def test_nested_spans_form_a_tree() -> None:
    kept = Kept()
    began = kept.tracer.start_call("call", ())
    with start_child_span("outer"), start_child_span("inner", SpanKind.CLIENT, {"rows": 3}):
        pass
    began.end_span(failed=False)
    inner, outer, call = kept.spans
    assert [item.name for item in (inner, outer, call)] == ["inner", "outer", "call"]
    assert inner.parent == outer.get_span_context()
    assert outer.parent == call.get_span_context()
    assert call.parent is None
    assert dict(inner.attributes or {}) == {"rows": 3}


def test_span_of_an_error_contains_only_the_error_type() -> None:
    kept = Kept()
    kept.tracer.start_call("call", ())
    with pytest.raises(ValueError, match="Lin likes tea"), start_child_span("work"):
        raise ValueError("Lin likes tea")
    (work,) = kept.spans
    assert work.status.status_code is StatusCode.ERROR
    assert dict(work.attributes or {}) == {"error.type": "ValueError"}
    assert "tea" not in work.to_json()


def test_work_after_a_call_creates_no_span() -> None:
    kept = Kept()
    began = kept.tracer.start_call("call", ())
    began.end_span(failed=False)
    assert get_trace_fields() == {}
    with start_child_span("later") as later:
        assert later is None


def test_ending_a_call_span_twice_has_no_effect() -> None:
    kept = Kept()
    call = kept.tracer.start_call("call", ())
    call.end_span(failed=False)
    call.end_span(failed=True)
    (recorded,) = kept.spans
    assert recorded.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("shows_content", [False, True])
def test_content_is_recorded_only_if_permitted(*, shows_content: bool) -> None:
    kept = Kept(shows_content=shows_content)
    kept.tracer.start_call("call", ())
    with start_child_span("work") as work:
        assert work is not None
        set_content_attribute(work, "question", "tea?")
    (recorded,) = kept.spans
    assert dict(recorded.attributes or {}) == ({"question": "tea?"} if shows_content else {})
