"""The request pipeline: authenticate, authorize, admit, read and validate, handle.

Every call takes it, whichever transport brings it. A transport is an adapter that makes an `IncomingCall`, passes a
function that reads the request, and sends the reply or the status of the fault.
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
from nomemory.server.api.identity.access import Access, RequiredScopes, confine
from nomemory.server.api.identity.user_fields import remove_namespace
from nomemory.server.api.limits import Limits, Reserve
from nomemory.server.api.service import Method, Reply, Service, methods_of
from nomemory.server.runtime.metrics.meters import Meters
from nomemory.spans.span import CallTracer

_BULK_TIMEOUT_S: Final = 3600.0
"""Timeout of imports and exports whose client sets none."""

ReadRequest: TypeAlias = Callable[[Reserve], Awaitable[ProtoMessage]]
"""Read and parse the one request of a call.

It calls its argument with the number of bytes, in all or piece by piece, before it parses them. It raises a Fault
(MALFORMED_REQUEST, REQUEST_TOO_LARGE, …) if there is no request or it is not valid.
"""
ReadNextRequest: TypeAlias = Callable[[Reserve], Awaitable[ProtoMessage | None]]
"""Read and parse the next request of a stream of them, as `ReadRequest` does; None: there are no more."""
RequestHook: TypeAlias = Callable[[ProtoMessage, CallContext], Awaitable[None]]
"""A function of the program that embeds the server. It runs before the handler, once for each request message, and
may raise a Fault. User ids in the request are the stored ones."""


@dataclass(frozen=True, slots=True)
class _RunningCall:
    incoming: IncomingCall
    method: Method
    record: CallRecord
    deadline: float
    timeout: asyncio.Timeout


class Pipeline:
    """Serves calls.

    Every method raises a `Fault` for a call that fails, whatever the cause. An unexpected error becomes INTERNAL. The
    call is already counted and logged then; the adapter only turns the fault into a status of its transport.

    Args:
        services: what is served.
        access: authenticates callers and authorizes calls.
        default_timeout_s: timeout of a call whose client sets none.
        limits: on what all calls hold together.
        reads: limits the expensive reads; None: nothing does.
        hooks: run before each handler.
        meters: count calls.
        tracer: begins their spans; None: there are none.

    Attributes:
        methods: what can be called, by path.
        service_names: the services, by their full names.
        limits: as above.
        meters: as above.
    """

    def __init__(
        self,
        services: Sequence[Service],
        access: Access,
        default_timeout_s: float,
        *,
        limits: Limits | None = None,
        reads: ReadAdmission | None = None,
        hooks: Sequence[RequestHook] = (),
        meters: Meters | None = None,
        tracer: CallTracer | None = None,
    ) -> None:
        self.methods = {method.path: method for service in services for method in methods_of(service)}
        self.service_names = [service.full_name for service in services]
        self.limits = limits or Limits()
        self.meters = meters or Meters()
        self._access = access
        self._default_timeout_s = default_timeout_s
        self._reads = reads
        self._hooks = tuple(hooks)
        self._tracer = tracer

    async def unary(self, incoming: IncomingCall, read: ReadRequest) -> bytes:
        """Answer a call with one request and one reply; return the encoded reply.

        Raises:
            KeyError: no method has this path.
            Fault: the call failed.
        """
        method = self.methods[incoming.path]
        async with self._observed(incoming, method) as call:
            context = await self._authorize(call)
            with self.limits.calls.slot(), self.limits.request_memory.reservation() as reserve:
                request = await read(reserve)
                await self._validate(request, context, method.served.required)
                async with self._admit(request, context, method):
                    handler: Any = method.served.handler
                    reply = await handler(request, context)
                return _encode(reply, context, method)

    async def server_stream(self, incoming: IncomingCall, read: ReadRequest) -> AsyncGenerator[bytes]:
        """Answer a call with one request; yield the encoded replies. Close it (`aclosing`) if the client goes away.

        The deadline holds while a reply is made, not while the client takes it.

        Raises:
            KeyError: no method has this path.
            Fault: the call failed.
        """
        method = self.methods[incoming.path]
        async with self._observed(incoming, method) as call:
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

    async def client_stream(self, incoming: IncomingCall, read_next: ReadNextRequest) -> bytes:
        """Answer a call with many requests and one reply; return the encoded reply.

        Raises:
            KeyError: no method has this path.
            Fault: the call failed.
        """
        method = self.methods[incoming.path]
        async with self._observed(incoming, method) as call:
            context = await self._authorize(call)
            with self.limits.calls.slot():
                handler: Any = method.served.handler
                reply = await handler(self._requests(read_next, context, method), context)
                return _encode(reply, context, method)

    async def _requests(
        self, read_next: ReadNextRequest, context: CallContext, method: Method
    ) -> AsyncIterator[ProtoMessage]:
        """Yield the requests of a stream. Each is forgotten when the next one is read."""
        while True:
            with self.limits.request_memory.reservation() as reserve:
                request = await read_next(reserve)
                if request is None:
                    return
                await self._validate(request, context, method.served.required)
                yield request

    @asynccontextmanager
    async def _observed(self, incoming: IncomingCall, method: Method) -> AsyncIterator[_RunningCall]:
        """Record a call and end it at its deadline. What is raised inside becomes a Fault."""
        record = CallRecord(incoming, method, self.meters, self._tracer)
        deadline = asyncio.get_running_loop().time() + self._timeout_s(incoming, method)
        try:
            async with asyncio.timeout_at(deadline) as timeout:
                yield _RunningCall(incoming, method, record, deadline, timeout)
        except (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit):
            record.cancel()
            raise
        except BaseException as error:  # noqa: BLE001 - errors become faults here; a panic of an engine is no Exception
            raise record.fail(error) from None
        record.succeed()

    def _timeout_s(self, incoming: IncomingCall, method: Method) -> float:
        if incoming.timeout_s is not None:
            return incoming.timeout_s
        if method.served.is_bulk:
            return _BULK_TIMEOUT_S
        return max(self._default_timeout_s, method.served.min_deadline_s)

    async def _authorize(self, call: _RunningCall) -> CallContext:
        """Authenticate the caller, and authorize the call. A recall is bound to its user here."""
        incoming, log_fields = call.incoming, call.record.log_fields
        caller = await self._access.authenticate(incoming.metadata, incoming.auth_context)
        log_fields["caller"] = caller.name
        bound = self._access.authorize(caller, call.method.served.required, incoming.metadata)
        if bound is not None:
            log_fields["identity"] = bound.identity
        return CallContext(incoming.request_id, call.deadline, caller, bound, incoming.transport)

    async def _validate(self, request: ProtoMessage, context: CallContext, required: RequiredScopes) -> None:
        """Confine a request to the users whom its caller may name. Its handler validates the other fields."""
        confine(request, context.caller, context.bound, required)
        for hook in self._hooks:
            await hook(request, context)

    def _admit(self, request: ProtoMessage, context: CallContext, method: Method) -> AbstractAsyncContextManager[None]:
        """Admit an expensive read, within the limits of its user and of its caller. Admit other calls at once."""
        if self._reads is None or not is_expensive(method.name, request):
            return nullcontext()
        user_id = context.bound.user_id if context.bound else getattr(request, "user_id", "")
        return self._reads.admit(user_id, (context.caller.name, context.caller.user_id))


def _encode(reply: Reply, context: CallContext, method: Method) -> bytes:
    """Encode a reply, with the user ids that its caller knows."""
    encoded = reply if isinstance(reply, bytes) else reply.SerializeToString()
    namespace = context.namespace
    return encoded if namespace is None else remove_namespace(encoded, method.reply_type, namespace)
