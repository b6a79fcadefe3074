"""What every call goes through: an id, a deadline, admission, a status if it fails, and one line of log.

The span of a call: what it is called, and what is said of its end.

Any error as a fault that a caller may see.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NoReturn

import grpc

from nomemory.server.faults import Fault, Reason
from nomemory.server.identity.access import Access, Need
from nomemory.server.identity.caller import Metadata
from nomemory.server.metrics.meters import GRPC, CallMeter
from nomemory.server.rpc.call import REQUEST_ID, Call, request_id_of
from nomemory.server.rpc.status import code_name, status_of
from nomemory.server.structured_logs import get_logger, structlog
from nomemory.spans.span import Span, in_metadata
from nomemory.spans.tracer import Tracer

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


_FRAMES_LOGGED = 8


def fault_of(error: BaseException, log: structlog.stdlib.BoundLogger) -> Fault:
    """Return the fault that a caller may see of an error. An unexpected one is logged, and becomes INTERNAL."""
    if isinstance(error, Fault):
        return error
    if isinstance(error, TimeoutError):
        return Fault(Reason.ERROR_REASON_DEADLINE_EXCEEDED, "the call took longer than its deadline")
    # The error's own words may quote a message: only its kind and its place are logged.
    frames = [f"{frame.name} {frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    log.error("unexpected error", kind=type(error).__name__, frames=frames[-_FRAMES_LOGGED:])
    log.debug("unexpected error, in full", exc_info=error)
    return Fault(Reason.ERROR_REASON_INTERNAL, "internal error")


_log = get_logger("rpc")
# Any: the types of a context are those of its RPC, and nothing here looks at them.
Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Method:
    """A method by its path, `/nomemory.v1.QueryService/ListMessages`, and what it needs of its caller."""

    path: str
    need: Need

    @property
    def name(self) -> str:
        """The short name, as the log has it."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class CallLifecycle:
    """Takes calls from their arrival to their end.

    Attributes:
        access: decides whether a call may go on.
        deadline_s: seconds that a call has if its client sets no deadline.
        bulk_deadline_s: the same for a method that may need long.
        meter: counts them.
        tracer: begins the span of each; None: there are none.
    """

    access: Access
    deadline_s: float
    bulk_deadline_s: float
    meter: CallMeter = field(default_factory=CallMeter)
    tracer: Tracer | None = None

    @asynccontextmanager
    async def admitted(self, method: Method, context: Context) -> AsyncIterator[tuple[Call, asyncio.Timeout]]:
        """Admit a call and hold it to its deadline. An error inside ends it with a status of the contract.

        Returns:
            The call, and what ends it at its deadline.
        """
        started = time.perf_counter()
        metadata = tuple(context.invocation_metadata() or ())
        request_id, span = request_id_of(metadata), begin_call(self.tracer, method.path, metadata)
        deadline = _deadline(context, self._default_s(method.need))
        facts = {"method": method.name, "request_id": request_id}
        try:
            async with asyncio.timeout_at(deadline) as timeout:
                caller = await self.access.caller(metadata, context.auth_context)
                facts["caller"] = caller.name
                admission = self.access.admit(caller, method.need, metadata)
                facts |= admission.facts()
                yield Call(request_id, deadline, admission), timeout
        except asyncio.CancelledError:
            self._end(context, facts, started, span, "CANCELLED")
            raise
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            end_call(span, _way_in(context), "CANCELLED")
            raise
        except grpc.aio.AbortError:  # an interceptor of the host has ended the call, status and all
            self._end(context, facts, started, span, context.code().name)
            raise
        except BaseException as error:  # noqa: BLE001 - errors become statuses here; an engine's panic is no Exception
            fault = fault_of(error, _log.bind(**facts))
            reason = Reason.Name(fault.reason)
            self._end(context, facts, started, span, code_name(fault), reason=reason)
            self.meter.failed(method.name, _way_in(context), reason)
            await _abort(context, fault, request_id)
        context.set_trailing_metadata((*context.trailing_metadata(), (REQUEST_ID, request_id)))
        self._end(context, facts, started, span, "OK")

    def _default_s(self, need: Need) -> float:
        """Return the seconds that a call has if its client sets no deadline."""
        return self.bulk_deadline_s if need.is_bulk else max(self.deadline_s, need.least_deadline_s)

    def _end(
        self, context: Context, facts: Mapping[str, str], started: float, span: Span | None, code: str, **why: str
    ) -> None:
        """Count a call that has ended, log it, and end its span."""
        took_s = time.perf_counter() - started
        self.meter.ended(facts["method"], _way_in(context), code, took_s)
        _log.info("rpc", **facts, code=code, **why, ms=round(took_s * 1000, 2))
        end_call(span, _way_in(context), code, **why)

    def deadline(self, context: Context) -> float:
        """Return when a call ends that is not bulk, in the event loop's time."""
        return _deadline(context, self.deadline_s)

    @asynccontextmanager
    async def refusing(self, context: Context) -> AsyncIterator[None]:
        """End a call that needs no admission with a status of the contract if it is refused inside."""
        try:
            yield
        except (Fault, TimeoutError) as error:
            await _abort(context, fault_of(error, _log), request_id_of(tuple(context.invocation_metadata() or ())))


def _deadline(context: Context, default_s: float) -> float:
    remaining_s = context.time_remaining()
    return asyncio.get_running_loop().time() + (default_s if remaining_s is None else remaining_s)


async def _abort(context: Context, fault: Fault, request_id: str) -> NoReturn:
    # An error's frames keep the call, and half a request, until a full collection: the fault's own, and those of what
    # gRPC keeps with the call.
    fault.__traceback__ = None
    try:
        await context.abort_with_status(status_of(fault, request_id))
    except grpc.aio.AbortError as ended:
        if (task := asyncio.current_task()) is not None:
            task.add_done_callback(partial(_forget, ended))
        raise
    raise fault


def _forget(ended: BaseException, _task: object) -> None:
    ended.__traceback__ = ended.__context__ = None


def _way_in(context: Context) -> str:
    return getattr(context, "way_in", GRPC)
