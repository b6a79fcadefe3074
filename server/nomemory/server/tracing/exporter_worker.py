"""The process that sends spans: `python -m … DESCRIPTOR`.

A request is `(collector, batch)`, a reply `(refused, cause)`: how many spans the collector has not taken, and why.

Spans as OTLP has them.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import groupby
from typing import Any, Final

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from nomemory.server import __version__
from nomemory.server.processes.frames import ReceivedCall
from nomemory.server.processes.worker_pipe import WorkerPipe
from nomemory.server.tracing.factory import Collector
from nomemory.spans.span import FinishedSpan, Value

_ID_BYTES: Final = 8
_KEPT_CHARS, _KEPT_MAX = 64, 4096
"""How long an attribute's text may be to be kept, and how many are: content is longer."""


def request_of(
    service: str, process: str, process_id: int, spans: Sequence[tuple[Any, ...]]
) -> ExportTraceServiceRequest:
    """Return what a collector is sent: the spans, those of each process under a resource of its own.

    Args:
        service: what the server is called.
        process: the process that has recorded them.
        process_id: of it.
        spans: the fields of each `FinishedSpan`.
    """
    finished = sorted((FinishedSpan(*fields) for fields in spans), key=_process)
    scope = InstrumentationScope(name="nomemory", version=__version__)
    return ExportTraceServiceRequest(
        resource_spans=[
            ResourceSpans(
                resource=_resource(service, name or process, number or process_id),
                scope_spans=[ScopeSpans(scope=scope, spans=map(_span, of_process))],
            )
            for (name, number), of_process in groupby(finished, _process)
        ]
    )


def _process(span: FinishedSpan) -> tuple[str, int]:
    return span.process, span.process_id


def _resource(service: str, process: str, process_id: int) -> Resource:
    said: dict[str, Value] = {
        "service.name": service,
        "service.version": __version__,
        "process.pid": process_id,
        "nomemory.process": process,
    }
    return Resource(attributes=_attributes(said))


def _span(span: FinishedSpan) -> Span:
    made = Span(
        trace_id=bytes.fromhex(span.trace_id),
        span_id=span.span_id.to_bytes(_ID_BYTES),
        trace_state=span.state,
        name=span.name,
        kind=span.kind,  # type: ignore[arg-type]  # our numbers are theirs
        start_time_unix_nano=span.began_ns,
        end_time_unix_nano=span.ended_ns,
        attributes=_attributes(span.attributes),
    )
    if span.parent_id:
        made.parent_span_id = span.parent_id.to_bytes(_ID_BYTES)
    if span.error:
        made.status.code = Status.STATUS_CODE_ERROR
        if "error.type" not in span.attributes:
            made.attributes.append(KeyValue(key="error.type", value=AnyValue(string_value=span.error)))
    return made


def _attributes(attributes: Mapping[str, Value]) -> list[KeyValue]:
    return [
        _attribute(name, value) if isinstance(value, str) and len(value) > _KEPT_CHARS else _kept(name, value)
        for name, value in attributes.items()
    ]


@lru_cache(_KEPT_MAX, typed=True)
def _kept(name: str, value: Value) -> KeyValue:
    """Return an attribute; the same ones come again and again, and to make one costs a tenth of a span."""
    return _attribute(name, value)


def _attribute(name: str, value: Value) -> KeyValue:
    return KeyValue(key=name, value=_any(value))


def _any(value: Value) -> AnyValue:
    if isinstance(value, str):
        return AnyValue(string_value=value)
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    return AnyValue(int_value=value) if isinstance(value, int) else AnyValue(double_value=value)


_METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
Export = Callable[..., ExportTraceServiceResponse]


@lru_cache(1)
def _export(collector: Collector) -> Export:
    """Connect to a collector."""
    if collector.is_tls:
        channel = grpc.secure_channel(collector.target, grpc.ssl_channel_credentials(collector.trusted))
    else:
        channel = grpc.insecure_channel(collector.target)
    return channel.unary_unary(
        _METHOD,
        request_serializer=ExportTraceServiceRequest.SerializeToString,
        response_deserializer=ExportTraceServiceResponse.FromString,
    )


def _sent(collector: Collector, batch: bytes) -> tuple[int, str]:
    """Send a batch; return how many spans were not taken, and why."""
    process, process_id, spans = pickle.loads(batch)  # noqa: S301 - written by a process of this server
    request = request_of(collector.service, process, process_id, spans)
    try:
        reply = _export(collector)(
            request, timeout=collector.timeout_s, metadata=collector.headers, wait_for_ready=True
        )
    except grpc.RpcError as error:
        return len(spans), error.code().name
    refused = reply.partial_success.rejected_spans
    return refused, "REJECTED" if refused else ""


def _answer(pipe: WorkerPipe, call: ReceivedCall) -> None:
    collector, batch = call.request
    pipe.reply(call.call_id, _sent(collector, batch))


def main(descriptor: int) -> None:
    """Report that it is ready, and send one batch after another. Heartbeats are answered meanwhile."""
    pipe = WorkerPipe(descriptor)
    pipe.ready()
    with ThreadPoolExecutor(1) as sending:
        try:
            while True:
                for call in pipe.receive(wait=True):
                    sending.submit(_answer, pipe, call)
        except (EOFError, ConnectionError):
            return


if __name__ == "__main__":
    main(int(sys.argv[1]))
