"""A host's own interceptors beside NoMemory's: their order, and what they see of a call before and after admission."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from server.fleet import environment
from server.host import ANSWERED_BY

from nomemory.server.composition.serving import serving
from nomemory.server.faults import Fault, Reason
from nomemory.server.identity.access import Access, Need
from nomemory.server.identity.caller import Caller, Metadata, Scope
from nomemory.server.listen_address import Addresses, ListenAddress
from nomemory.server.rpc import call_lifecycle
from nomemory.server.rpc.call import Call, Handler, ServedMethod, current_call
from nomemory.server.rpc.host_interceptors import HostInterceptors
from nomemory.server.rpc.interceptor import Continuation
from nomemory.server.settings import Settings
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1 import recall_service_pb2 as r
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from nomemory.v1.recall_service_pb2_grpc import RecallServiceStub
from talk import address_in, logged, refusal

Context = grpc.aio.ServicerContext[Any, Any]
Behaviour = Callable[[Any, Context], Awaitable[Any]]
LIST = "/nomemory.v1.QueryService/ListMessages"
BOBS = q.ListMessagesRequest(user_id="bob").SerializeToString()
PRIVATE = "what only the host knows"


@dataclass
class Seen:
    """A request as an interceptor saw it, and who it was told had made it."""

    who: str
    request: object
    call: Call | None


@dataclass
class Host(grpc.aio.ServerInterceptor):
    """Notes what it sees. `does` runs before the handler that comes next; `code` is the last status it saw."""

    name: str
    seen: list[Seen]
    does: Callable[[Context], Awaitable[None]] | None = None
    looked_up_as: list[Call | None] = field(default_factory=list)
    code: grpc.StatusCode | None = None

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        self.looked_up_as.append(current_call())
        handler = await continuation(handler_call_details)
        if handler is None or handler.response_streaming:
            return handler
        if handler.request_streaming:
            behaviour: Any = handler.stream_unary
            return grpc.stream_unary_rpc_method_handler(
                self._noting_stream(behaviour), handler.request_deserializer, handler.response_serializer
            )
        answer: Any = handler.unary_unary
        return grpc.unary_unary_rpc_method_handler(
            self._noting(answer),
            handler.request_deserializer,
            handler.response_serializer,
        )

    def _noting_stream(self, behaviour: Behaviour) -> Behaviour:
        async def handle(requests: AsyncIterator[object], context: Context) -> object:
            seen = Seen(self.name, None, current_call())
            self.seen.append(seen)

            async def noted() -> AsyncIterator[object]:
                async for request in requests:
                    seen.request = request
                    yield request

            try:
                return await behaviour(noted(), context)
            finally:
                self.code = context.code()

        return handle

    def _noting(self, behaviour: Behaviour) -> Behaviour:
        async def handle(request: object, context: Context) -> object:
            self.seen.append(Seen(self.name, request, current_call()))
            if self.does is not None:
                await self.does(context)
            try:
                return await behaviour(request, context)
            finally:
                self.code = context.code()

        return handle


class Extra(grpc.aio.ServerInterceptor):
    """Answers whatever method it is asked for."""

    def __init__(self) -> None:
        self.answered = False

    async def intercept_service(
        self, _continuation: Continuation, _handler_call_details: grpc.HandlerCallDetails
    ) -> Handler:
        async def handle(_request: bytes, _context: Context) -> bytes:
            self.answered = True
            return b""

        return grpc.unary_unary_rpc_method_handler(handle)


class ByName:
    """Takes a caller's word for who it is: `x-name`, and a user's for `x-user`. Nobody gets in without a word."""

    async def caller(self, metadata: Metadata, _peer: object) -> Caller:
        words = dict(metadata)
        if "x-user" in words:
            return Caller("user-token", frozenset({Scope.QUERY, Scope.RECALL}), str(words["x-user"]))
        if "x-name" in words:
            return Caller(str(words["x-name"]), frozenset({Scope.QUERY, Scope.RECALL, Scope.ACT_AS}))
        raise Fault(Reason.ERROR_REASON_CREDENTIALS_MISSING, "say who you are")


class Queries:
    """A QueryService that answers nothing, and notes who asked."""

    full_name = "nomemory.v1.QueryService"

    def __init__(self, seen: list[Seen]) -> None:
        self._seen = seen

    def methods(self) -> Mapping[str, ServedMethod]:
        methods, need = q.DESCRIPTOR.services_by_name["QueryService"].methods, Need(frozenset({Scope.QUERY}))
        once, twice = ServedMethod(need, self.answer), ServedMethod(need, self.answer_twice)
        return {method.name: twice if method.server_streaming else once for method in methods}

    async def answer(self, request: object, call: Call) -> bytes:
        await asyncio.sleep(0.001)
        self._seen.append(Seen("service", request, call))
        return b""

    async def answer_twice(self, _request: object, _call: Call) -> AsyncIterator[bytes]:
        for _ in range(2):
            yield b""


class Recalls(Queries):
    """A RecallService of the same kind."""

    full_name = "nomemory.v1.RecallService"

    def methods(self) -> Mapping[str, ServedMethod]:
        need = Need(frozenset({Scope.RECALL}), binds_user=True)
        return {"Recall": ServedMethod(need, self.answer), "StreamRecall": ServedMethod(need, self.answer_twice)}


@asynccontextmanager
async def hosting(seen: list[Seen], host: HostInterceptors, **changed: float) -> AsyncIterator[grpc.aio.Channel]:
    settings = Settings.from_environment(**{"drain_s": 0.0} | changed)
    services, access = [Queries(seen), Recalls(seen)], Access(ByName(), settings.limits.id_max_chars)
    async with (
        serving(services, Addresses(ListenAddress("127.0.0.1", 0)), settings, access, host=host) as address,
        grpc.aio.insecure_channel(str(address)) as channel,
    ):
        yield channel


async def listed(channel: grpc.aio.Channel, user: str, *metadata: tuple[str, str]) -> None:
    await QueryServiceStub(channel).ListMessages(q.ListMessagesRequest(user_id=user), metadata=metadata)


async def sent(channel: grpc.aio.Channel, path: str, raw: bytes, metadata: tuple[tuple[str, str], ...]) -> None:
    method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
    await method(raw, metadata=metadata)


async def test_a_call_meets_outer_interceptors_then_admission_then_inner_ones_then_the_service() -> None:
    seen: list[Seen] = []
    outer, inner = (Host("outer 1", seen), Host("outer 2", seen)), (Host("inner 1", seen), Host("inner 2", seen))
    async with hosting(seen, HostInterceptors(outer, inner)) as channel:
        await listed(channel, "ann", ("x-name", "chat"))
    assert [(one.who, one.call is not None) for one in seen] == [
        ("outer 1", False), ("outer 2", False), ("inner 1", True), ("inner 2", True), ("service", True),
    ]  # fmt: skip


async def test_an_outer_interceptor_sees_bytes_and_an_inner_one_the_request_and_its_caller() -> None:
    seen: list[Seen] = []
    host = HostInterceptors((Host("outer", seen),), (Host("inner", seen),))
    async with hosting(seen, host) as channel:
        await listed(channel, "ann", ("x-name", "chat"))
    outer, inner, _ = seen
    request = q.ListMessagesRequest(user_id="ann")
    assert (outer.request, inner.request) == (request.SerializeToString(), request)
    assert inner.call is not None
    assert inner.call.admission.caller.name == "chat"


async def test_an_inner_interceptor_knows_the_user_that_a_recall_is_bound_to() -> None:
    seen: list[Seen] = []
    async with hosting(seen, HostInterceptors(inner=(Host("inner", seen),))) as channel:
        metadata = (("x-name", "chat"), ("x-user-id", "ann"))
        await RecallServiceStub(channel).Recall(r.RecallRequest(question="?"), metadata=metadata)
    assert seen[0].call is not None
    assert seen[0].call.bound_user() == "ann"


async def test_a_stream_of_answers_passes_both() -> None:
    seen: list[Seen] = []
    host = HostInterceptors((Host("outer", seen),), (Host("inner", seen),))
    async with hosting(seen, host) as channel:
        stream = RecallServiceStub(channel).StreamRecall(r.StreamRecallRequest(), metadata=(("x-user", "ann"),))
        assert len([reply async for reply in stream]) == 2


@pytest.mark.parametrize(
    ("metadata", "raw", "code"),
    [
        ((), b"", grpc.StatusCode.UNAUTHENTICATED),
        ((("x-name", "chat"),), b"\xff", grpc.StatusCode.INVALID_ARGUMENT),
        ((("x-user", "ann"),), BOBS, grpc.StatusCode.PERMISSION_DENIED),
    ],
    ids=["nobody", "malformed", "another user"],
)  # fmt: skip
async def test_a_refused_call_never_reaches_an_inner_interceptors_handler(
    metadata: tuple[tuple[str, str], ...], raw: bytes, code: grpc.StatusCode
) -> None:
    seen: list[Seen] = []
    outer, inner = Host("outer", seen), Host("inner", seen)
    async with hosting(seen, HostInterceptors((outer,), (inner,))) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await sent(channel, LIST, raw, metadata)
    assert error.value.code() is code
    assert [(one.who, one.call) for one in seen] == [("outer", None)]
    assert outer.code is code
    assert outer.looked_up_as == inner.looked_up_as == [None]


async def test_there_is_no_current_call_while_handlers_are_looked_up() -> None:
    seen: list[Seen] = []
    inner = Host("inner", seen)
    async with hosting(seen, HostInterceptors(inner=(inner,))) as channel:
        for _ in range(3):  # over one connection, after others were admitted on it
            await listed(channel, "ann", ("x-name", "chat"))
    assert inner.looked_up_as == [None] * 3


async def test_calls_at_the_same_time_do_not_see_each_other() -> None:
    seen: list[Seen] = []
    users = [f"user-{n}" for n in range(40)]
    async with hosting(seen, HostInterceptors(inner=(Host("inner", seen),))) as channel:
        await asyncio.gather(*(listed(channel, user, ("x-user", user)) for user in users))
    named = [(one.request.user_id, one.call.admission.caller.user_id) for one in seen if one.call]  # type: ignore[attr-defined]
    assert sorted(named) == sorted((user, user) for user in users * 2)


async def test_an_inner_interceptor_may_end_a_call() -> None:
    async def refuse(context: Context) -> None:
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "enough for today")

    seen: list[Seen] = []
    with logged(call_lifecycle) as logs:
        async with hosting(seen, HostInterceptors(inner=(Host("quota", seen, refuse),))) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await listed(channel, "ann", ("x-name", "chat"))
            async with asyncio.timeout(10):  # the line may come after the status
                while not any(line["event"] == "rpc" for line in logs):  # noqa: ASYNC110 - logs have no event to wait for
                    await asyncio.sleep(0.01)
    assert (error.value.code(), error.value.details()) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "enough for today")
    assert [one.who for one in seen] == ["quota"]
    assert [line["code"] for line in logs if line["event"] == "rpc"] == ["RESOURCE_EXHAUSTED"]


async def test_an_error_of_an_inner_interceptor_shows_nothing_of_itself() -> None:
    async def crash(_context: Context) -> None:
        raise RuntimeError(PRIVATE)

    seen: list[Seen] = []
    async with hosting(seen, HostInterceptors(inner=(Host("inner", seen, crash),))) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await listed(channel, "ann", ("x-name", "chat"))
    assert (refusal(error.value).reason, refusal(error.value).text) == ("INTERNAL", "internal error")
    assert PRIVATE not in repr(error.value) + str(error.value.trailing_metadata())


async def test_the_servers_deadline_holds_for_inner_interceptors() -> None:
    async def hang(_context: Context) -> None:
        await asyncio.sleep(60)

    seen: list[Seen] = []
    async with hosting(seen, HostInterceptors(inner=(Host("inner", seen, hang),)), deadline_default_s=0.05) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await listed(channel, "ann", ("x-name", "chat"))
    assert refusal(error.value).reason == "DEADLINE_EXCEEDED"


async def test_trailing_metadata_of_a_host_stands_beside_the_request_id() -> None:
    async def stamp(context: Context) -> None:
        context.set_trailing_metadata((("x-host", "1"),))

    seen: list[Seen] = []
    async with hosting(seen, HostInterceptors(inner=(Host("inner", seen, stamp),))) as channel:
        call = QueryServiceStub(channel).ListMessages(
            q.ListMessagesRequest(), metadata=(("x-name", "chat"), ("x-request-id", "mine"))
        )
        trailing = dict(await call.trailing_metadata())
    assert (trailing["x-host"], trailing["x-request-id"]) == ("1", "mine")


async def test_health_passes_both_and_is_nobodys_call() -> None:
    seen: list[Seen] = []
    host = HostInterceptors((Host("outer", seen),), (Host("inner", seen),))
    async with hosting(seen, host) as channel:
        reply = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    assert reply.status == health_pb2.HealthCheckResponse.SERVING
    assert [(one.who, one.call) for one in seen] == [("outer", None), ("inner", None)]


async def test_a_method_that_needs_nothing_known_does_not_exist() -> None:
    seen: list[Seen] = []
    extra = Extra()
    async with hosting(seen, HostInterceptors(inner=(extra,))) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await sent(channel, "/host.v1.Extra/Do", b"", (("x-name", "chat"),))
    assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert not extra.answered


def test_a_host_serves_with_its_own_interceptors(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import server.host; server.host.main()"]
    variables = environment(tmp_path / "data", PYTHONPATH=str(Path(__file__).parent.parent))
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=variables, text=True) as process:
        assert process.stdout
        try:
            with grpc.insecure_channel(address_in(process.stdout.readline())) as channel:
                stub = QueryServiceStub(channel)
                _, call = stub.ListMessages.with_call(q.ListMessagesRequest(user_id="u"), timeout=30)
        finally:
            process.kill()
    assert dict(call.initial_metadata())[ANSWERED_BY] == str(process.pid)
