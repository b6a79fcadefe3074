"""Begins the spans of calls, and decides which traces are recorded."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from nomemory.spans.span import Context, Kind, Recorder, Span

_TRACE_ID_BITS: Final = 128
_CHANCE_BITS: Final = 64
_CHANCE_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class Sampling:
    """Which traces are recorded.

    Attributes:
        ratio: how many of the traces that begin here, 0 to 1. The same trace is chosen everywhere with one ratio.
        callers_decide: whether a caller's word counts, recorded or not, where it sends the context of a trace.
    """

    ratio: float
    callers_decide: bool = True

    def chooses(self, trace_id: str) -> bool:
        """Return whether a trace is among those of the ratio, by the lower half of its id, as others do."""
        return int(trace_id[-_CHANCE_DIGITS:], 16) < self.ratio * (1 << _CHANCE_BITS)


class Tracer:
    """Begins spans that are the first of their process.

    Args:
        sampling: which traces are recorded.
        recorder: takes the spans.
    """

    def __init__(self, sampling: Sampling, recorder: Recorder) -> None:
        self.sampling = sampling
        self._recorder = recorder

    def begin(self, name: str, caller: Context | None) -> Span:
        """Begin the span of a call, in the trace of its caller or in a new one, and make it the current one."""
        if caller is None:
            caller = Context(f"{_fresh_id():032x}", 0, is_sampled=False)
            is_recorded = self.sampling.chooses(caller.trace_id)
        elif self.sampling.callers_decide:
            is_recorded = caller.is_sampled
        else:
            is_recorded = self.sampling.chooses(caller.trace_id)
        return self._began(name, caller, is_recorded=is_recorded)

    def continued(self, name: str, caller: Context) -> Span:
        """Begin the span of what another process of this server has asked for, and make it the current one."""
        return self._began(name, caller, is_recorded=caller.is_sampled)

    def _began(self, name: str, caller: Context, *, is_recorded: bool) -> Span:
        recorder = self._recorder if is_recorded else None
        span = Span(name, Kind.SERVER, caller.trace_id, caller.span_id, caller.state, recorder)
        span.make_current()
        return span


def _fresh_id() -> int:
    return random.getrandbits(_TRACE_ID_BITS) or 1
