"""The edge between gRPC and the services: one wrapper around every method.

It gives each call its id and its deadline, has it admitted, parses and confines the request, turns whatever goes wrong
into a status of the contract, and writes one line of log. It is one wrapper and not a chain of interceptors because
each interceptor costs as much as a short read.
"""

from __future__ import annotations

import asyncio
import re
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import NoReturn

import grpc
import structlog
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.message_factory import GetMessageClass

from nomemory.server.faults import Fault, Reason
from nomemory.server.identity.access import Access, Need, confine
from nomemory.server.identity.metadata import Metadata
from nomemory.server.rpc.call import Call, ClientStream, Reply, ServerStream, Service, Unary
from nomemory.server.rpc.status import REQUEST_ID, code_name, status_of

_log = structlog.get_logger("rpc")
_ID_BYTES = 13
_USABLE_ID = re.compile(r"[\x21-\x7e]{1,128}")

Context = grpc.aio.ServicerContext[bytes, bytes]


class Edge:
    """Wraps the methods of services.

    Args:
        access: decides whether a call may go on.
        deadline_s: deadline of a call whose client sets none.
        stream_deadline_s: the same, for methods that take a stream.
    """

    def __init__(self, access: Access, deadline_s: float, stream_deadline_s: float) -> None:
        self._access = access
        self._deadline_s = deadline_s
        self._stream_deadline_s = stream_deadline_s

    def handlers(self, service: Service) -> grpc.GenericRpcHandler:
        """Make what a gRPC server serves of a service; the contract's descriptor says which methods it has."""
        descriptor = descriptor_pool.Default().FindServiceByName(service.full_name)
        needs = service.needs()
        handlers = {method.name: self._handler(service, method, needs[method.name]) for method in descriptor.methods}
        return grpc.method_handlers_generic_handler(service.full_name, handlers)

    def _handler(self, service: Service, method: MethodDescriptor, need: Need) -> grpc.RpcMethodHandler[bytes, bytes]:
        if method.client_streaming:
            return self._client_stream(method, need, service.client_stream_methods()[method.name])
        if method.server_streaming:
            return self._server_stream(method, need, service.server_stream_methods()[method.name])
        return self._unary(method, need, service.unary_methods()[method.name])

    def _unary(self, method: MethodDescriptor, need: Need, behaviour: Unary) -> grpc.RpcMethodHandler[bytes, bytes]:
        request_type = GetMessageClass(method.input_type)

        async def handle(raw: bytes, context: Context) -> bytes:
            async with self._admitted(method, need, context, self._deadline_s) as call:
                return _encoded(await behaviour(_read(request_type, raw, call), call))

        return grpc.unary_unary_rpc_method_handler(handle)

    def _client_stream(
        self, method: MethodDescriptor, need: Need, behaviour: ClientStream
    ) -> grpc.RpcMethodHandler[bytes, bytes]:
        request_type = GetMessageClass(method.input_type)

        async def handle(stream: AsyncIterator[bytes], context: Context) -> bytes:
            async with self._admitted(method, need, context, self._stream_deadline_s) as call:
                return _encoded(await behaviour((_read(request_type, raw, call) async for raw in stream), call))

        return grpc.stream_unary_rpc_method_handler(handle)

    def _server_stream(
        self, method: MethodDescriptor, need: Need, behaviour: ServerStream
    ) -> grpc.RpcMethodHandler[bytes, bytes]:
        request_type = GetMessageClass(method.input_type)

        async def handle(raw: bytes, context: Context) -> AsyncIterator[bytes]:
            async with self._admitted(method, need, context, self._deadline_s) as call:
                async for reply in behaviour(_read(request_type, raw, call), call):
                    yield _encoded(reply)

        return grpc.unary_stream_rpc_method_handler(handle)

    @asynccontextmanager
    async def _admitted(
        self, method: MethodDescriptor, need: Need, context: Context, deadline_s: float
    ) -> AsyncIterator[Call]:
        """Let a call through, under its deadline; what goes wrong in it ends it with a status."""
        started = time.perf_counter()
        metadata = tuple(context.invocation_metadata() or ())
        request_id, give_up = _request_id(metadata), _give_up(context, deadline_s)
        facts = {"method": method.name, "request_id": request_id}
        try:
            async with asyncio.timeout_at(give_up):
                caller = await self._access.caller(metadata, context.auth_context)
                facts["caller"] = caller.name
                admission = self._access.admit(caller, need, metadata)
                facts |= admission.facts()
                yield Call(request_id, give_up, admission)
        except asyncio.CancelledError:
            _log.info("rpc", **facts, code="CANCELLED", ms=_milliseconds(started))
            raise
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - errors become statuses here; an engine's panic is no Exception
            fault = fault_of(error, _log.bind(**facts))
            reason = Reason.Name(fault.reason)
            _log.info("rpc", **facts, code=code_name(fault), reason=reason, ms=_milliseconds(started))
            await _abort(context, fault, request_id)
        context.set_trailing_metadata(((REQUEST_ID, request_id),))
        _log.info("rpc", **facts, code="OK", ms=_milliseconds(started))


def _encoded(reply: Reply) -> bytes:
    return reply if isinstance(reply, bytes) else reply.SerializeToString()


def _request_id(metadata: Metadata) -> str:
    own = dict(metadata).get(REQUEST_ID, "")
    return own if isinstance(own, str) and _USABLE_ID.fullmatch(own) else token_hex(_ID_BYTES)


def _give_up(context: Context, deadline_s: float) -> float:
    remaining = context.time_remaining()
    return asyncio.get_running_loop().time() + (deadline_s if remaining is None else remaining)


def _read(request_type: type[ProtoMessage], raw: bytes, call: Call) -> ProtoMessage:
    request = _parsed(request_type, raw)
    confine(call.admission, request)
    return request


def _parsed(request_type: type[ProtoMessage], raw: bytes) -> ProtoMessage:
    try:
        return request_type.FromString(raw)
    except DecodeError:
        name = request_type.DESCRIPTOR.full_name
        raise Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, f"the request is not a valid {name} in UTF-8") from None


def fault_of(error: BaseException, log: structlog.stdlib.BoundLogger) -> Fault:
    """Return the fault that a caller may see of an error; what was not expected is logged."""
    if isinstance(error, Fault):
        return error
    if isinstance(error, TimeoutError):
        return Fault(Reason.ERROR_REASON_DEADLINE_EXCEEDED, "the call took longer than its deadline")
    # The error's own words may quote a message: only its kind and its place are logged.
    frames = [f"{frame.name} {frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    log.error("unexpected error", kind=type(error).__name__, frames=frames[-8:])
    log.debug("unexpected error, in full", exc_info=error)
    return Fault(Reason.ERROR_REASON_INTERNAL, "internal error")


async def _abort(context: Context, fault: Fault, request_id: str) -> NoReturn:
    await context.abort_with_status(status_of(fault, request_id))
    raise fault


def _milliseconds(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 2)
