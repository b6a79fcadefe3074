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
from nomemory.server.metrics import catalog
from nomemory.server.metrics.meters import Meters
from nomemory.server.rpc.call import REQUEST_ID, Call, request_id_of
from nomemory.server.rpc.status import code_name, status_of
from nomemory.server.structured_logs import get_logger, structlog
from nomemory.spans.span import ERROR_TYPE, CallTracer, TracedCall

_GRPC: Final = "grpc"
"""The way in of a call that does not say another one."""
_FAILURES: Final = frozenset({"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"})
"""Codes that are failures of a server, by the conventions of OpenTelemetry. The others are answers."""


def begin_call(tracer: CallTracer | None, path: str, metadata: Metadata) -> TracedCall | None:
    """Begin the span of a call by its path, `/nomemory.v1.QueryService/ListMessages`; None: there are no traces."""
    name = path.removeprefix("/")
    return None if tracer is None else tracer.begin(name, metadata, {"rpc.method": name})


def end_call(traced: TracedCall | None, way_in: str, code: str, reason: str = "") -> None:
    """End it, with the way in, the gRPC code and the contract's reason of an error."""
    if traced is None:
        return
    said = {"rpc.response.status_code": code, "nomemory.via": way_in}
    if way_in == _GRPC:
        said["rpc.system.name"] = "grpc"
    if code != "OK":
        said[ERROR_TYPE] = _plain(reason) or code
    traced.span.set_attributes(said)
    traced.end(failed=code in _FAILURES)


def _plain(reason: str) -> str:
    """Return a reason of the contract as the documentation writes it."""
    return reason.removeprefix("ERROR_REASON_")


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
        meters: count them.
        tracer: begins the span of each; None: there are none.
    """

    access: Access
    deadline_s: float
    bulk_deadline_s: float
    meters: Meters = field(default_factory=Meters)
    tracer: CallTracer | None = None

    @asynccontextmanager
    async def admitted(self, method: Method, context: Context) -> AsyncIterator[tuple[Call, asyncio.Timeout]]:
        """Admit a call and hold it to its deadline. An error inside ends it with a status of the contract.

        Returns:
            The call, and what ends it at its deadline.
        """
        started = time.perf_counter()
        metadata = tuple(context.invocation_metadata() or ())
        request_id, traced = request_id_of(metadata), begin_call(self.tracer, method.path, metadata)
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
            self._end(context, facts, started, traced, "CANCELLED")
            raise
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            end_call(traced, _way_in(context), "CANCELLED")
            raise
        except grpc.aio.AbortError:  # an interceptor of the host has ended the call, status and all
            self._end(context, facts, started, traced, context.code().name)
            raise
        except BaseException as error:  # noqa: BLE001 - errors become statuses here; an engine's panic is no Exception
            fault = fault_of(error, _log.bind(**facts))
            reason = Reason.Name(fault.reason)
            self._end(context, facts, started, traced, code_name(fault), reason=reason)
            self.meters.count(catalog.ERRORS, method.name, _way_in(context), _plain(reason))
            await _abort(context, fault, request_id)
        context.set_trailing_metadata((*context.trailing_metadata(), (REQUEST_ID, request_id)))
        self._end(context, facts, started, traced, "OK")

    def _default_s(self, need: Need) -> float:
        """Return the seconds that a call has if its client sets no deadline."""
        return self.bulk_deadline_s if need.is_bulk else max(self.deadline_s, need.least_deadline_s)

    def _end(
        self,
        context: Context,
        facts: Mapping[str, str],
        started: float,
        traced: TracedCall | None,
        code: str,
        **why: str,
    ) -> None:
        """Count a call that has ended, log it, and end its span."""
        took_s = time.perf_counter() - started
        self.meters.observe(catalog.CALLS, took_s, facts["method"], _way_in(context), code)
        _log.info("rpc", **facts, code=code, **why, ms=round(took_s * 1000, 2))
        end_call(traced, _way_in(context), code, **why)

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
    return getattr(context, "way_in", _GRPC)
