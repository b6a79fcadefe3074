"""The span of a call: what it is called, and what is said of its end."""

from __future__ import annotations

from typing import Final

from nomemory.server.identity.metadata import Metadata
from nomemory.server.metrics.meters import GRPC
from nomemory.spans.span import Span
from nomemory.spans.tracer import Tracer
from nomemory.spans.w3c import in_metadata

_FAILURES: Final = frozenset({"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"})
"""Codes that are failures of a server, by the conventions of OpenTelemetry. The others are answers."""


def begin_call(tracer: Tracer | None, path: str, metadata: Metadata) -> Span | None:
    """Begin the span of a call by its path, `/nomemory.v1.QueryService/ListMessages`; None: there are no traces."""
    return None if tracer is None else tracer.begin(path.removeprefix("/"), in_metadata(metadata))


def end_call(span: Span | None, way_in: str, code: str, reason: str = "") -> None:
    """End it, with the way in, the gRPC code and the contract's reason of an error."""
    if span is None:
        return
    if span.is_recorded:
        named = {"rpc.system.name": "grpc"} if way_in == GRPC else {}
        span.attributes |= {**named, "rpc.method": span.name, "rpc.response.status_code": code, "nomemory.via": way_in}
        if code != "OK":
            span.attributes["error.type"] = reason.removeprefix("ERROR_REASON_") or code
        span.error = code if code in _FAILURES else ""
    span.end()
