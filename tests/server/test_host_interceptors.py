"""Tests for embedding programs: gRPC interceptors, and hooks that run before each handler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message as ProtoMessage
from grpc_health.v1 import health_pb2, health_pb2_grpc

from captured_logs import logged
from nomemory.server.api import call_record
from nomemory.server.api.call import CallContext
from nomemory.server.api.grpc.adapter import RpcHandler
from nomemory.server.api.grpc.interceptor import Continuation
from nomemory.server.api.host_interceptors import HostInterceptors
from nomemory.server.api.identity.access import AccessControl, RequiredScopes
from nomemory.server.api.identity.caller import Caller, Metadata, Scope
from nomemory.server.api.service import ServedMethod
from nomemory.server.faults import Fault, Reason, build_overload_fault
from nomemory.server.runtime.listen_address import ListenAddress, ListenAddresses
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import StartupError
from nomemory.server.runtime.wiring.serving import running_servers
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1 import recall_service_pb2 as r
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from nomemory.v1.recall_service_pb2_grpc import RecallServiceStub
from rpc_errors import refusal

ServicerContext = grpc.aio.ServicerContext[Any, Any]
Hook = Callable[[ProtoMessage, CallContext], Awaitable[None]]
LIST = "/nomemory.v1.QueryService/ListMessages"
LIST_BOB = q.ListMessagesRequest(user_id="bob").SerializeToString()
PRIVATE = "what only the host knows"
ANYWHERE = ListenAddress("127.0.0.1", 0)


@dataclass
class Interceptor(grpc.aio.ServerInterceptor):
    """Records the requests and the final status of calls with one reply."""

    name: str = ""
    order: list[str] = field(default_factory=list)
    requests: list[object] = field(default_factory=list)
    code: grpc.StatusCode | None = None

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> RpcHandler | None:
        handler = await continuation(handler_call_details)
        if handler is None or handler.response_streaming:
            return handler
        answer: Any = handler.stream_unary

        async def handle(requests: AsyncIterator[object], context: ServicerContext) -> object:
            self.order.append(self.name)
            try:
                return await answer(self._recorded(requests), context)
            finally:
                self.code = context.code()

        return grpc.stream_unary_rpc_method_handler(handle, handler.request_deserializer, handler.response_serializer)

    async def _recorded(self, requests: AsyncIterator[object]) -> AsyncIterator[object]:
        async for request in requests:
            self.requests.append(request)
            yield request


@dataclass
class Recorder:
    """A hook that records its calls."""

    order: list[str] = field(default_factory=list)
    calls: list[tuple[Any, CallContext]] = field(default_factory=list)

    async def __call__(self, request: ProtoMessage, context: CallContext) -> None:
        self.order.append("before handler")
        self.calls.append((request, context))


class ByName:
    """Authenticates by metadata: `x-name` names a service, `x-user` a user with a token."""

    async def authenticate(self, metadata: Metadata, _peer: object) -> Caller:
        words = dict(metadata)
        if "x-user" in words:
            return Caller("user-token", frozenset({Scope.QUERY, Scope.RECALL}), str(words["x-user"]))
        if "x-name" in words:
            return Caller(str(words["x-name"]), frozenset({Scope.QUERY, Scope.RECALL, Scope.ACT_AS}))
        raise Fault(Reason.ERROR_REASON_CREDENTIALS_MISSING, "say who you are")


class Queries:
    """A QueryService with empty replies."""

    full_name = "nomemory.v1.QueryService"

    def __init__(self, order: list[str]) -> None:
        self._order = order

    def methods(self) -> Mapping[str, ServedMethod]:
        methods, required = (
            q.DESCRIPTOR.services_by_name["QueryService"].methods,
            RequiredScopes(frozenset({Scope.QUERY})),
        )
        unary, stream = ServedMethod(required, self.answer), ServedMethod(required, self.answer_twice)
        return {method.name: stream if method.server_streaming else unary for method in methods}

    async def answer(self, _request: object, _context: CallContext) -> bytes:
        await asyncio.sleep(0.001)
        self._order.append("handler")
        return b""

    async def answer_twice(self, _request: object, _context: CallContext) -> AsyncIterator[bytes]:
        for _ in range(2):
            yield b""


class Recalls(Queries):
    """A RecallService with empty replies."""

    full_name = "nomemory.v1.RecallService"

    def methods(self) -> Mapping[str, ServedMethod]:
        required = RequiredScopes(frozenset({Scope.RECALL}), binds_user=True)
        return {
            "Recall": ServedMethod(required, self.answer),
            "StreamRecall": ServedMethod(required, self.answer_twice),
            "BuildContext": ServedMethod(required, self.answer),
        }


@asynccontextmanager
async def hosting(
    host: HostInterceptors, order: list[str] | None = None, **changed: float
) -> AsyncIterator[grpc.aio.Channel]:
    settings = Settings.from_environment(**{"drain_timeout_s": 0.0} | changed)
    order = [] if order is None else order
    services, access = [Queries(order), Recalls(order)], AccessControl(ByName())
    async with (
        running_servers(services, ListenAddresses(ANYWHERE), settings, access, host=host) as address,
        grpc.aio.insecure_channel(str(address)) as channel,
    ):
        yield channel


async def list_messages(channel: grpc.aio.Channel, user: str, *metadata: tuple[str, str]) -> None:
    await QueryServiceStub(channel).ListMessages(q.ListMessagesRequest(user_id=user), metadata=metadata)


async def test_interceptors_run_before_hooks_and_hooks_before_the_handler() -> None:
    order: list[str] = []
    host = HostInterceptors((Interceptor("1", order), Interceptor("2", order)), (Recorder(order), Recorder(order)))
    async with hosting(host, order) as channel:
        await list_messages(channel, "ann", ("x-name", "chat"))
    assert order == ["1", "2", "before handler", "before handler", "handler"]


async def test_an_interceptor_sees_bytes_and_a_hook_the_request_and_its_caller() -> None:
    interceptor, hook = Interceptor(), Recorder()
    async with hosting(HostInterceptors((interceptor,), (hook,))) as channel:
        await list_messages(channel, "ann", ("x-name", "chat"))
    ((request, context),) = hook.calls
    assert (interceptor.requests, request) == ([request.SerializeToString()], q.ListMessagesRequest(user_id="ann"))
    assert (context.caller.name, context.transport) == ("chat", "grpc")


async def test_hook_receives_the_bound_user() -> None:
    hook = Recorder()
    async with hosting(HostInterceptors(before_handler=(hook,))) as channel:
        metadata = (("x-name", "chat"), ("x-user-id", "ann"))
        await RecallServiceStub(channel).Recall(r.RecallRequest(question="?"), metadata=metadata)
    assert hook.calls[0][1].require_bound_user() == "ann"


async def test_streamed_responses_pass_interceptors_and_hooks() -> None:
    hook = Recorder()
    async with hosting(HostInterceptors((Interceptor(),), (hook,))) as channel:
        stream = RecallServiceStub(channel).StreamRecall(r.StreamRecallRequest(), metadata=(("x-user", "ann"),))
        assert len([reply async for reply in stream]) == 2
    assert len(hook.calls) == 1


@pytest.mark.parametrize(
    ("metadata", "encoded", "code"),
    [
        ((), b"", grpc.StatusCode.UNAUTHENTICATED),
        ((("x-name", "chat"),), b"\xff", grpc.StatusCode.INVALID_ARGUMENT),
        ((("x-user", "ann"),), LIST_BOB, grpc.StatusCode.PERMISSION_DENIED),
    ],
    ids=["nobody", "malformed", "another user"],
)  # fmt: skip
async def test_rejected_call_runs_no_hook(
    metadata: tuple[tuple[str, str], ...], encoded: bytes, code: grpc.StatusCode
) -> None:
    interceptor, hook = Interceptor(), Recorder()
    async with hosting(HostInterceptors((interceptor,), (hook,))) as channel:
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(LIST)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await method(encoded, metadata=metadata)
    assert error.value.code() is code
    assert interceptor.code is code
    assert not hook.calls


async def test_unauthenticated_request_is_not_read() -> None:
    interceptor = Interceptor()
    async with hosting(HostInterceptors((interceptor,))) as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await list_messages(channel, "ann")
    assert not interceptor.requests


async def test_concurrent_calls_are_isolated() -> None:
    hook = Recorder()
    users = [f"user-{n}" for n in range(40)]
    async with hosting(HostInterceptors(before_handler=(hook,))) as channel:
        await asyncio.gather(*(list_messages(channel, user, ("x-user", user)) for user in users))
    assert sorted((request.user_id, context.caller.user_id) for request, context in hook.calls) == sorted(
        (user, user) for user in users
    )


async def test_hook_can_reject_a_call() -> None:
    async def refuse(_request: ProtoMessage, _context: CallContext) -> None:
        raise build_overload_fault("enough for today")

    with logged(call_record) as logs:
        async with hosting(HostInterceptors(before_handler=(refuse,))) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await list_messages(channel, "ann", ("x-name", "chat"))
    assert (refusal(error.value).reason, refusal(error.value).text) == ("OVERLOADED", "enough for today")
    assert [line["code"] for line in logs if line["event"] == "rpc"] == ["RESOURCE_EXHAUSTED"]


async def test_hook_error_reveals_no_details() -> None:
    async def crash(_request: ProtoMessage, _context: CallContext) -> None:
        raise RuntimeError(PRIVATE)

    async with hosting(HostInterceptors(before_handler=(crash,))) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await list_messages(channel, "ann", ("x-name", "chat"))
    assert (refusal(error.value).reason, refusal(error.value).text) == ("INTERNAL", "internal error")
    assert PRIVATE not in repr(error.value) + str(error.value.trailing_metadata())


async def test_server_deadline_applies_to_hooks() -> None:
    async def hang(_request: ProtoMessage, _context: CallContext) -> None:
        await asyncio.sleep(60)

    async with hosting(HostInterceptors(before_handler=(hang,)), default_deadline_s=0.05) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await list_messages(channel, "ann", ("x-name", "chat"))
    assert refusal(error.value).reason == "DEADLINE_EXCEEDED"


async def test_trailing_metadata_has_interceptor_values_and_the_request_id() -> None:
    class Stamp(grpc.aio.ServerInterceptor):
        async def intercept_service(
            self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
        ) -> RpcHandler | None:
            handler = await continuation(handler_call_details)
            assert handler is not None
            answer: Any = handler.stream_unary

            async def stamped(requests: object, context: ServicerContext) -> object:
                context.set_trailing_metadata((("x-host", "1"),))
                return await answer(requests, context)

            return grpc.stream_unary_rpc_method_handler(stamped)

    async with hosting(HostInterceptors((Stamp(),))) as channel:
        call = QueryServiceStub(channel).ListMessages(
            q.ListMessagesRequest(), metadata=(("x-name", "chat"), ("x-request-id", "mine"))
        )
        trailing = dict(await call.trailing_metadata())
    assert (trailing["x-host"], trailing["x-request-id"]) == ("1", "mine")


async def test_health_check_passes_interceptors_but_no_hook() -> None:
    interceptor, hook = Interceptor(), Recorder()
    async with hosting(HostInterceptors((interceptor,), (hook,))) as channel:
        reply = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    assert reply.status == health_pb2.HealthCheckResponse.SERVING
    assert (len(interceptor.requests), hook.calls) == (1, [])


async def test_server_with_grpc_interceptors_cannot_serve_http() -> None:
    settings = Settings.from_environment(drain_timeout_s=0.0)
    access, host = AccessControl(ByName()), HostInterceptors((Interceptor(),))
    with pytest.raises(StartupError, match="before_handler"):
        async with running_servers([Queries([])], ListenAddresses(ANYWHERE, ANYWHERE), settings, access, host=host):
            pass
