"""The request pipeline: authenticate, authorize, read and validate the request, admit, handle.

The adapter of a transport creates an `IncomingCall`, passes a function that reads the request, and sends the response
or the error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from google.protobuf.message import Message as ProtoMessage

from nomemory.server.api.admission.expensive_reads import is_expensive
from nomemory.server.api.admission.read_admission import ReadAdmission
from nomemory.server.api.call import CallContext, IncomingCall
from nomemory.server.api.call_record import CallRecord
from nomemory.server.api.identity.access import AccessControl, RequiredScopes, restrict_to_caller
from nomemory.server.api.identity.user_fields import remove_namespace
from nomemory.server.api.limits import RequestLimits, Reserve
from nomemory.server.api.service import Method, Reply, Service, list_methods
from nomemory.server.runtime.metrics.meters import Meters
from nomemory.spans.span import CallTracer

_BULK_TIMEOUT_S: Final = 3600.0
"""Timeout of imports and exports if the client sets none."""

ReadRequest: TypeAlias = Callable[[Reserve], Awaitable[ProtoMessage]]
"""Reads and parses the request of a call.

The function must call its argument once or several times to reserve memory before it parses the request. It raises a
Fault (MALFORMED_REQUEST, REQUEST_TOO_LARGE, …) if the request is missing or malformed.
"""
ReadNextRequest: TypeAlias = Callable[[Reserve], Awaitable[ProtoMessage | None]]
"""Reads and parses the next request of a stream like `ReadRequest`. Returns None at the end of the stream."""
RequestHook: TypeAlias = Callable[[ProtoMessage, CallContext], Awaitable[None]]
"""A function of the program that embeds the server. It runs before the handler, once for each request message, and may
raise a Fault. User ids in the request are stored ids."""


@dataclass(frozen=True, slots=True)
class _RunningCall:
    incoming: IncomingCall
    method: Method
    record: CallRecord
    deadline: float
    timeout: asyncio.Timeout


class Pipeline:
    """Executes calls.

    The pipeline counts and logs every failed call, and raises a `Fault`, which the adapter converts to an error of its
    transport. An unexpected error becomes an INTERNAL fault.

    Args:
        access: authenticates callers and authorizes calls.
        default_timeout_s: the timeout, in seconds, of calls without a client timeout.
        limits: the process-wide limits.
        reads: the admission of expensive reads; None disables admission control.
        hooks: functions of the host program that run before each handler.
        tracer: starts the spans of calls; None disables tracing.

    Attributes:
        methods: the methods by path.
        service_names: the full names of the services, such as `nomemory.v1.QueryService`.
        limits: the process-wide limits.
    """

    def __init__(
        self,
        services: Sequence[Service],
        access: AccessControl,
        default_timeout_s: float,
        *,
        limits: RequestLimits | None = None,
        reads: ReadAdmission | None = None,
        hooks: Sequence[RequestHook] = (),
        meters: Meters | None = None,
        tracer: CallTracer | None = None,
    ) -> None:
        self.methods = {method.path: method for service in services for method in list_methods(service)}
        self.service_names = [service.full_name for service in services]
        self.limits = limits or RequestLimits()
        self.meters = meters or Meters()
        self._access = access
        self._default_timeout_s = default_timeout_s
        self._reads = reads
        self._hooks = tuple(hooks)
        self._tracer = tracer

    async def execute_unary(self, incoming: IncomingCall, read: ReadRequest) -> bytes:
        """Execute a unary call and return the encoded response.

        Raises:
            KeyError: no method has this path.
            Fault: the call failed.
        """
        method = self.methods[incoming.path]
        async with self._observe_call(incoming, method) as call:
            context = await self._authorize(call)
            with self.limits.calls.slot(), self.limits.request_memory.reservation() as reserve:
                request = await read(reserve)
                await self._validate(request, context, method.served.required)
                async with self._admit(request, context, method):
                    handler: Any = method.served.handler
                    reply = await handler(request, context)
                return _encode(reply, context, method)

    async def execute_server_stream(self, incoming: IncomingCall, read: ReadRequest) -> AsyncGenerator[bytes]:
        """Execute a server-streaming call and yield the encoded responses.

        The caller must close the generator if the client disconnects. The deadline is suspended while a response is
        sent to the client.

        Raises:
            KeyError: no method has this path.
            Fault: the call failed.
        """
        method = self.methods[incoming.path]
        async with self._observe_call(incoming, method) as call:
            context = await self._authorize(call)
            with self.limits.calls.slot(), self.limits.request_memory.reservation() as reserve:
                request = await read(reserve)
                await self._validate(request, context, method.served.required)
                handler: Any = method.served.handler
                async with (
                    self._admit(request, context, method),
                    aclosing(handler(request, context)) as replies,
                ):
                    async for reply in replies:
                        call.timeout.reschedule(None)
                        yield _encode(reply, context, method)
                        call.timeout.reschedule(context.deadline)

    async def execute_client_stream(self, incoming: IncomingCall, read_next: ReadNextRequest) -> bytes:
        """Execute a client-streaming call and return the encoded response.

        Raises:
            KeyError: no method has this path.
            Fault: the call failed.
        """
        method = self.methods[incoming.path]
        async with self._observe_call(incoming, method) as call:
            context = await self._authorize(call)
            with self.limits.calls.slot():
                handler: Any = method.served.handler
                reply = await handler(self._read_requests(read_next, context, method), context)
                return _encode(reply, context, method)

    async def _read_requests(
        self, read_next: ReadNextRequest, context: CallContext, method: Method
    ) -> AsyncIterator[ProtoMessage]:
        """Yield the requests of a client stream.

        Reading a request releases the memory reserved for the previous request.
        """
        while True:
            with self.limits.request_memory.reservation() as reserve:
                request = await read_next(reserve)
                if request is None:
                    return
                await self._validate(request, context, method.served.required)
                yield request

    @asynccontextmanager
    async def _observe_call(self, incoming: IncomingCall, method: Method) -> AsyncIterator[_RunningCall]:
        """Record a call, enforce its deadline, and convert its errors to faults."""
        record = CallRecord(incoming, method, self.meters, self._tracer)
        deadline = asyncio.get_running_loop().time() + self._compute_timeout_s(incoming, method)
        try:
            async with asyncio.timeout_at(deadline) as timeout:
                yield _RunningCall(incoming, method, record, deadline, timeout)
        except (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit):
            record.record_cancellation()
            raise
        except BaseException as error:  # noqa: BLE001 - panics of native libraries are not subclasses of Exception
            raise record.record_failure(error) from None
        record.record_success()

    def _compute_timeout_s(self, incoming: IncomingCall, method: Method) -> float:
        if incoming.timeout_s is not None:
            return incoming.timeout_s
        if method.served.is_bulk:
            return _BULK_TIMEOUT_S
        return max(self._default_timeout_s, method.served.min_deadline_s)

    async def _authorize(self, call: _RunningCall) -> CallContext:
        """Authenticate the caller, authorize the call, and bind a recall to its user."""
        incoming, log_fields = call.incoming, call.record.log_fields
        caller = await self._access.authenticate(incoming.metadata, incoming.auth_context)
        log_fields["caller"] = caller.name
        bound = self._access.authorize(caller, call.method.served.required, incoming.metadata)
        if bound is not None:
            log_fields["identity"] = bound.identity
        return CallContext(incoming.request_id, call.deadline, caller, bound, incoming.transport)

    async def _validate(self, request: ProtoMessage, context: CallContext, required: RequiredScopes) -> None:
        """Restrict a request to the users that the caller may access, and run the hooks."""
        restrict_to_caller(request, context.caller, context.bound, required)
        for hook in self._hooks:
            await hook(request, context)

    def _admit(self, request: ProtoMessage, context: CallContext, method: Method) -> AbstractAsyncContextManager[None]:
        """Return a context manager that admits the call if it is an expensive read, and otherwise does nothing."""
        if self._reads is None or not is_expensive(method.name, request):
            return nullcontext()
        user_id = context.bound.user_id if context.bound else getattr(request, "user_id", "")
        return self._reads.admit(user_id, (context.caller.name, context.caller.user_id))


def _encode(reply: Reply, context: CallContext, method: Method) -> bytes:
    """Encode a response and remove the caller's namespace from its user ids."""
    encoded = reply if isinstance(reply, bytes) else reply.SerializeToString()
    namespace = context.namespace
    return encoded if namespace is None else remove_namespace(encoded, method.reply_type, namespace)
