"""A fake OpenTelemetry collector."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest

pytest.importorskip("opentelemetry.proto", reason="the extra `otel` is not installed")

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as wire
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from tracing.calls import CALLER

SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"
WAIT_S = 30.0
Value = str | int | float | bool


@dataclass(frozen=True)
class Seen:
    """A received span. `resource` has the attributes of the process."""

    name: str
    kind: int
    trace: str
    span: str
    parent: str
    state: str
    status: int
    began_ns: int
    ended_ns: int
    attributes: Mapping[str, Value]
    resource: Mapping[str, Value]

    @property
    def process_id(self) -> int:
        return int(self.resource["process.pid"])


@dataclass
class Collector:
    """Stores received spans. `refuse` fails calls, `reject` accepts only a number of spans."""

    spans: list[Seen] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    metadata: list[Mapping[str, Any]] = field(default_factory=list)
    target: str = ""
    refuse: bool = False
    reject: int = 0
    held: threading.Event = field(default_factory=threading.Event)

    def export(
        self, request: wire.ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> wire.ExportTraceServiceResponse:
        """Store spans."""
        self.held.wait()
        self.metadata.append(dict(context.invocation_metadata()))
        if self.refuse:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "no")
        self.raw.append(request.SerializeToString())
        self.spans += list(_seen(request))
        reply = wire.ExportTraceServiceResponse()
        reply.partial_success.rejected_spans = self.reject
        return reply

    def wait(self, enough: Callable[[list[Seen]], bool]) -> list[Seen]:
        """Wait for spans; return all received ones."""
        give_up = time.monotonic() + WAIT_S
        while not enough(list(self.spans)):
            assert time.monotonic() < give_up, sorted(span.name for span in self.spans)
            time.sleep(0.02)
        return list(self.spans)

    def trace(self, trace_id: str, *names: str) -> list[Seen]:
        """Wait until a trace has spans of these names, and their parents; return it."""

        def of_trace(spans: list[Seen]) -> list[Seen]:
            return [span for span in spans if span.trace == trace_id]

        def is_whole(spans: list[Seen]) -> bool:
            return set(names) <= {span.name for span in spans} and not list(strays(spans))

        return of_trace(self.wait(lambda spans: is_whole(of_trace(spans))))


def strays(spans: list[Seen]) -> Iterator[Seen]:
    """Return the spans whose parent is neither the caller's span nor received."""
    known_ids = {"", CALLER, *(span.span for span in spans)}
    return (span for span in spans if span.parent not in known_ids)


def _seen(request: wire.ExportTraceServiceRequest) -> Iterator[Seen]:
    for of_process in request.resource_spans:
        resource = _values(of_process.resource.attributes)
        for span in (span for scope in of_process.scope_spans for span in scope.spans):
            yield Seen(
                span.name,
                span.kind,
                span.trace_id.hex(),
                span.span_id.hex(),
                span.parent_span_id.hex(),
                span.trace_state,
                span.status.code,
                span.start_time_unix_nano,
                span.end_time_unix_nano,
                _values(span.attributes),
                resource,
            )


def _values(attributes: Any) -> dict[str, Value]:  # noqa: ANN401 - protobuf's container
    pairs: list[KeyValue] = list(attributes)
    return {pair.key: getattr(pair.value, str(pair.value.WhichOneof("value"))) for pair in pairs}


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector on a free port."""
    collector = Collector()
    collector.held.set()
    server = grpc.server(ThreadPoolExecutor(4))
    handler = grpc.unary_unary_rpc_method_handler(
        collector.export,
        wire.ExportTraceServiceRequest.FromString,
        wire.ExportTraceServiceResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Export": handler}),))
    collector.target = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield collector
    finally:
        collector.held.set()
        server.stop(0).wait()
