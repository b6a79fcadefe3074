"""The context of a trace as it crosses a border: W3C's `traceparent` and `tracestate`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from nomemory.spans.span import Span

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"

_FORM: Final = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED: Final = 1
_STATE_MAX: Final = 512
_STATE: Final = re.compile(r"[\x20-\x7e]*")


@dataclass(frozen=True, slots=True)
class Context:
    """Where a trace comes from: its id, the span of the caller, whether that is recorded, and the trace's state."""

    trace_id: str
    span_id: int
    is_sampled: bool
    state: str = ""


def parsed(traceparent: str, tracestate: str = "") -> Context | None:
    """Read a context; None: there is none, or none that makes sense. Of later versions it reads what it knows."""
    if not traceparent:
        return None
    found = _FORM.fullmatch(traceparent)
    if found is None or (found[1] == "00" and found[5]):
        return None
    trace_id, span_id = found[2], int(found[3], 16)
    if not span_id or not trace_id.strip("0"):
        return None
    is_state = len(tracestate) <= _STATE_MAX and _STATE.fullmatch(tracestate)
    return Context(trace_id, span_id, bool(int(found[4], 16) & _SAMPLED), tracestate if is_state else "")


def traceparent_of(span: Span) -> str:
    """Write the context of a span."""
    return f"00-{span.trace_id}-{span.span_id:016x}-{int(span.is_recorded):02x}"


def in_metadata(metadata: Iterable[tuple[str, str | bytes]]) -> Context | None:
    """Return the context in a call's metadata. More than one `traceparent` is none; states are joined."""
    parents: list[str] = []
    states: list[str] = []
    for name, value in metadata:
        if name in {TRACEPARENT, TRACESTATE} and isinstance(value, str):
            (parents if name == TRACEPARENT else states).append(value)
    return parsed(parents[0], ",".join(states)) if len(parents) == 1 else None


def as_metadata(span: Span | None) -> tuple[tuple[str, str], ...]:
    """Return the metadata that a call carries for a span."""
    if span is None:
        return ()
    parent = (TRACEPARENT, traceparent_of(span))
    return (parent, (TRACESTATE, span.state)) if span.state else (parent,)
