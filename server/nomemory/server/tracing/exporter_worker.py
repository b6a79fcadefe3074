"""The process that sends spans: `python -m … DESCRIPTOR`.

A request is `(collector, batch)`, a reply `(refused, cause)`: how many spans the collector has not taken, and why.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from nomemory.server.processes.frames import ReceivedCall
from nomemory.server.processes.worker_pipe import WorkerPipe
from nomemory.server.tracing.collector import Collector
from nomemory.server.tracing.otlp import request_of

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
