"""What a call does, as a tree of spans: pieces of work with a name, a beginning and an end.

Whoever does a piece of work says so with `span(…)`. It need not know whether anybody records it: where nobody does,
that costs a look at one variable. What records spans, and where they go, is a `Recorder`.

The context of a trace as it crosses a border: W3C's `traceparent` and `tracestate`.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import IntEnum
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self

Value = str | int | float | bool
"""The value of an attribute."""


_SPAN_ID_BITS: Final = 64


class Kind(IntEnum):
    """What a span is to its parent, by the numbers of OpenTelemetry."""

    INTERNAL = 1
    SERVER = 2
    CLIENT = 3


class FinishedSpan(NamedTuple):
    """A span that has ended. Times are in nanoseconds since the Unix epoch.

    `error` is the kind of error that it ended with, empty if there was none. `parent_id` is 0 for the root of a trace.
    `process` and `process_id` are empty and 0 where they are those of the process that records it.
    """

    name: str
    kind: int
    trace_id: str
    span_id: int
    parent_id: int
    state: str
    began_ns: int
    ended_ns: int
    attributes: dict[str, Value]
    error: str
    process: str = ""
    process_id: int = 0


class Recorder(Protocol):
    """Takes spans that have ended."""

    @property
    def shows_content(self) -> bool:
        """Whether attributes may hold what people have said and asked."""

    def record(self, finished: FinishedSpan) -> None:
        """Take a span. It never waits and never fails."""


class Span:
    """A piece of work that goes on. As a context it is the current span.

    Args:
        name: what the work is; of few different values.
        kind: what it is to its parent.
        trace_id: 32 hexadecimal digits.
        parent_id: the span that it is part of; 0: none.
        state: the trace's state as W3C has it, passed on as it came.
        recorder: takes it when it has ended. None: the trace is not recorded, and has an id all the same.
        around: the span that is current again afterwards.

    Attributes:
        attributes: of few different values, and never content: see `show`.
        is_recorded: whether anybody will see it.
        is_over: whether it has ended.
        error: the kind of error that it ends with.
    """

    __slots__ = (
        "_around",
        "_began",
        "_began_ns",
        "_recorder",
        "attributes",
        "error",
        "is_over",
        "is_recorded",
        "kind",
        "name",
        "parent_id",
        "span_id",
        "state",
        "trace_id",
    )

    def __init__(
        self,
        name: str,
        kind: Kind,
        trace_id: str,
        parent_id: int,
        state: str,
        recorder: Recorder | None,
        around: Span | None = None,
    ) -> None:
        self.name, self.kind = name, kind
        self.trace_id, self.parent_id, self.state = trace_id, parent_id, state
        self.span_id = random.getrandbits(_SPAN_ID_BITS) or 1
        self.attributes: dict[str, Value] = {}
        self.error = ""
        self.is_recorded = recorder is not None
        self.is_over = False
        self._recorder = recorder
        self._around = around
        self._began_ns, self._began = time.time_ns(), time.perf_counter_ns()

    def child(self, name: str, kind: Kind) -> Span:
        """Begin a piece of this work."""
        return Span(name, kind, self.trace_id, self.span_id, self.state, self._recorder, self)

    def show(self, name: str, content: str) -> None:
        """Set an attribute that holds content, if content may be shown."""
        if self._recorder is not None and self._recorder.shows_content:
            self.attributes[name] = content

    @property
    def shows_content(self) -> bool:
        """Whether `show` does anything."""
        return self._recorder is not None and self._recorder.shows_content

    def elsewhere(self, process: str, process_id: int, began_ns: int, ended_ns: int) -> None:
        """Record what another process, which records nothing itself, has done for this span."""
        if self._recorder is not None:
            span_id = random.getrandbits(_SPAN_ID_BITS) or 1
            known = (process, Kind.SERVER, self.trace_id, span_id, self.span_id, self.state)
            self._recorder.record(FinishedSpan(*known, began_ns, ended_ns, {}, "", process, process_id))

    def make_current(self) -> None:
        """Have what follows in this task be part of it."""
        _CURRENT.set(self)

    def end(self) -> None:
        """End it, once."""
        if self.is_over:
            return
        self.is_over = True
        if self._recorder is not None:
            ended_ns = self._began_ns + time.perf_counter_ns() - self._began
            known = (self.name, self.kind, self.trace_id, self.span_id, self.parent_id, self.state)
            self._recorder.record(FinishedSpan(*known, self._began_ns, ended_ns, self.attributes, self.error))

    def __enter__(self) -> Self:
        _CURRENT.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _CURRENT.set(self._around)
        if kind is not None:
            self.error = kind.__name__
        self.end()

    def open_ancestor(self) -> Span | None:
        """Return the nearest of this span and those around it that has not ended; None if all of them have."""
        found: Span | None = self
        while found is not None and found.is_over:
            found = found._around  # noqa: SLF001 - our own class
        return found


class _NoSpan:
    """Stands where nothing is recorded. There is one, for all."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_error: object) -> None:
        return None


_NONE: Final = _NoSpan()
_CURRENT: ContextVar[Span | None] = ContextVar("nomemory_span", default=None)


def current() -> Span | None:
    """Return the span of the work that goes on; None: it is part of no trace.

    A task that outlives the call that has started it is part of no trace any more.
    """
    found = _CURRENT.get()
    return found.open_ancestor() if found is not None and found.is_over else found


def span(name: str, kind: Kind = Kind.INTERNAL) -> Span | _NoSpan:
    """Begin a piece of the current work; as a context it is a `Span`, or None where nothing is recorded."""
    around = current()
    return around.child(name, kind) if around is not None and around.is_recorded else _NONE


def trace_fields() -> dict[str, str]:
    """Return what a line of the log says of the trace that it belongs to."""
    found = current()
    return {} if found is None else {"trace_id": found.trace_id}


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
