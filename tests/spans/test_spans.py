"""The context of a trace, as W3C writes it: what makes no sense is no context, and nothing of it is trusted."""

from __future__ import annotations

import pytest
from spans.kept import Kept

from nomemory.spans.span import (
    Context,
    Kind,
    Span,
    as_metadata,
    current,
    in_metadata,
    parsed,
    span,
    trace_fields,
    traceparent_of,
)
from nomemory.spans.tracer import Sampling, Tracer

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{PARENT}-01"
NONSENSE = (
    "",
    "nonsense",
    GOOD.upper(),
    GOOD[:-1],
    f"{GOOD} ",
    f"{GOOD}-more",
    f"ff-{TRACE}-{PARENT}-01",
    f"00-{'0' * 32}-{PARENT}-01",
    f"00-{TRACE}-{'0' * 16}-01",
    f"00-{TRACE}-{PARENT}-0x",
    f"00-{TRACE}\n-{PARENT}-01",
)


def test_a_context_is_read() -> None:
    assert parsed(GOOD, "a=1") == Context(TRACE, int(PARENT, 16), is_sampled=True, state="a=1")
    assert parsed(f"00-{TRACE}-{PARENT}-00") == Context(TRACE, int(PARENT, 16), is_sampled=False)


def test_of_a_later_version_what_is_known_is_read() -> None:
    later = parsed(f"01-{TRACE}-{PARENT}-03-more")
    assert later is not None
    assert later.is_sampled


@pytest.mark.parametrize("text", NONSENSE)
def test_nonsense_is_no_context(text: str) -> None:
    assert parsed(text) is None


def test_a_state_that_is_too_long_or_no_text_is_left_out() -> None:
    for state in ("x" * 513, "a=é", "a=\n"):
        read = parsed(GOOD, state)
        assert read is not None
        assert read.state == ""


def test_two_contexts_are_none_and_states_are_joined() -> None:
    assert in_metadata([("traceparent", GOOD), ("traceparent", GOOD)]) is None
    read = in_metadata([("tracestate", "a=1"), ("traceparent", GOOD), ("tracestate", "b=2")])
    assert read is not None
    assert read.state == "a=1,b=2"


def test_what_is_sent_on_is_read_again() -> None:
    began = Tracer(Sampling(1), Kept()).begin("call", parsed(GOOD, "a=1"))
    assert in_metadata(as_metadata(began)) == Context(TRACE, began.span_id, is_sampled=True, state="a=1")
    began.end()


def test_a_caller_decides_unless_the_settings_do() -> None:
    sampled, not_sampled = parsed(GOOD), parsed(f"00-{TRACE}-{PARENT}-00")
    for ratio in (0, 1):
        assert Tracer(Sampling(ratio), Kept()).begin("call", sampled).is_recorded
        assert not Tracer(Sampling(ratio), Kept()).begin("call", not_sampled).is_recorded
        decided = Tracer(Sampling(ratio, callers_decide=False), Kept())
        assert decided.begin("call", sampled).is_recorded == bool(ratio)
        assert decided.begin("call", not_sampled).is_recorded == bool(ratio)


def test_a_share_of_new_traces_is_recorded() -> None:
    tracer = Tracer(Sampling(0.25), Kept())
    recorded = sum(tracer.begin("call", None).is_recorded for _ in range(4000))
    assert 800 < recorded < 1200


def test_a_trace_that_is_not_recorded_has_an_id_and_no_spans() -> None:
    kept = Kept()
    began = Tracer(Sampling(0), kept).begin("call", None)
    assert trace_fields() == {"trace_id": began.trace_id}
    with span("work") as work:
        assert work is None
    assert traceparent_of(began).endswith("-00")
    began.end()
    assert kept.spans == []


def test_work_within_work_is_a_tree() -> None:
    kept = Kept()
    began = Tracer(Sampling(1), kept).begin("call", None)
    with span("outer") as outer, span("inner", Kind.CLIENT):
        pass
    began.end()
    assert outer is not None
    by_name = {one.name: one for one in kept.spans}
    assert by_name["inner"].parent_id == outer.span_id
    assert by_name["outer"].parent_id == began.span_id
    assert by_name["call"].parent_id == 0
    assert len({one.trace_id for one in kept.spans}) == 1


def test_an_error_is_told_by_its_kind_alone() -> None:
    kept = Kept()
    Tracer(Sampling(1), kept).begin("call", None)
    with pytest.raises(ValueError, match="Lin likes tea"), span("work"):
        raise ValueError("Lin likes tea")
    assert kept.spans[0].error == "ValueError"
    assert "tea" not in repr(kept.spans)


def test_what_outlives_a_call_is_no_part_of_it() -> None:
    kept = Kept()
    began = Tracer(Sampling(1), kept).begin("call", None)
    inner = began.child("work", Kind.INTERNAL)
    inner.make_current()
    inner.end()
    assert current() is began
    began.end()
    assert current() is None
    assert trace_fields() == {}
    with span("later") as later:
        assert later is None


def test_a_span_ends_once() -> None:
    kept = Kept()
    one = Span("call", Kind.SERVER, TRACE, 0, "", kept)
    one.end()
    one.end()
    assert len(kept.spans) == 1


def test_content_is_shown_only_where_it_may_be() -> None:
    for shows_content in (False, True):
        kept = Kept(shows_content=shows_content)
        one = Span("call", Kind.SERVER, TRACE, 0, "", kept)
        one.show("question", "tea?")
        one.end()
        assert kept.spans[0].attributes == ({"question": "tea?"} if shows_content else {})
