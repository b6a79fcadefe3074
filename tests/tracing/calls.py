"""Calls that belong to a trace."""

from __future__ import annotations

from secrets import token_hex

from identity.calls import Metadata

CALLER = "00f067aa0ba902b7"
"""The span of whoever calls."""
_TRACE_BYTES = 16


def fresh_trace() -> str:
    """Return the id of a new trace."""
    return token_hex(_TRACE_BYTES)


def of_trace(trace: str, caller: str = CALLER, *, sampled: bool = True, **more: str) -> Metadata:
    """Return the metadata of a call in a trace."""
    parent = ("traceparent", f"00-{trace}-{caller}-{int(sampled):02x}")
    return (parent, *((name.replace("_", "-"), value) for name, value in more.items()))
