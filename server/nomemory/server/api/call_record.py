"""Tracing, metrics and logging of API calls."""

from __future__ import annotations

import time
from typing import Final

from nomemory.server.api.call import IncomingCall
from nomemory.server.api.errors import get_grpc_code_name, get_short_reason, to_fault
from nomemory.server.api.service import Method
from nomemory.server.faults import Fault
from nomemory.server.runtime.metrics import catalog
from nomemory.server.runtime.metrics.meters import Meters
from nomemory.server.runtime.structured_logs import get_logger
from nomemory.spans.span import ERROR_TYPE, CallTracer

_log = get_logger("api")

_FAILURES: Final = frozenset({"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"})
"""gRPC codes that the OpenTelemetry conventions count as server errors."""


class CallRecord:
    """Records the span, the metrics and the log entry of one call."""

    def __init__(self, incoming: IncomingCall, method: Method, meters: Meters, tracer: CallTracer | None) -> None:
        self.log_fields = {"method": method.name, "request_id": incoming.request_id}
        self._method_name = method.name
        self._transport = incoming.transport
        self._meters = meters
        self._started = time.perf_counter()
        name = method.path.removeprefix("/")
        self._span = None if tracer is None else tracer.start_call(name, incoming.metadata, {"rpc.method": name})

    def record_success(self) -> None:
        """Record that the call succeeded."""
        self._record_end("OK")

    def record_cancellation(self) -> None:
        """Record that the client cancelled the call or disconnected."""
        self._record_end("CANCELLED")

    def record_failure(self, error: BaseException) -> Fault:
        """Record that the call failed, and return the fault to send to the client."""
        fault = to_fault(error, _log.bind(**self.log_fields))
        reason = get_short_reason(fault)
        self._meters.count(catalog.ERRORS, self._method_name, self._transport, reason)
        self._record_end(get_grpc_code_name(fault), reason)
        return fault

    def _record_end(self, code: str, reason: str = "") -> None:
        seconds = time.perf_counter() - self._started
        self._meters.observe(catalog.CALLS, seconds, self._method_name, self._transport, code)
        error = {"reason": f"ERROR_REASON_{reason}"} if reason else {}
        _log.info("rpc", **self.log_fields, code=code, **error, ms=round(seconds * 1000, 2))
        self._end_span(code, reason)

    def _end_span(self, code: str, reason: str) -> None:
        if self._span is None:
            return
        attributes = {"rpc.response.status_code": code, "nomemory.via": self._transport}
        if self._transport == "grpc":
            attributes["rpc.system.name"] = "grpc"
        if code != "OK":
            attributes[ERROR_TYPE] = reason or code
        self._span.span.set_attributes(attributes)
        self._span.end_span(failed=code in _FAILURES)
