"""Tests for all calls: deadlines, errors, request ids, health, reflection and hidden details."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from chat_messages import new_message
from nomemory.server.api.call import CallContext
from nomemory.server.api.identity.access import AccessControl, RequiredScopes
from nomemory.server.api.identity.authenticator import LocalAuthenticator
from nomemory.server.api.identity.caller import Scope
from nomemory.server.api.service import ServedMethod, ServerStreamHandler, UnaryHandler
from nomemory.server.faults import Fault, Reason
from nomemory.server.runtime.listen_address import ListenAddress, ListenAddresses
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.serving import running_servers
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from rpc_errors import refusal

if TYPE_CHECKING:
    from running_server import Server

PRIVATE = "what only the user knows"


class Misbehaving:
    """A QueryService whose methods fail in specified ways."""

    full_name = "nomemory.v1.QueryService"

    def methods(self) -> Mapping[str, ServedMethod]:
        answers: dict[str, UnaryHandler | ServerStreamHandler] = {
            "ListMessages": self.crash,
            "LexicalSearch": self.hang,
            "SemanticSearch": self.refuse,
            "HybridSearch": self.crash,
            "GetNeighbors": self.crash,
            "BatchGetMessages": self.many_violations,
            "CountMessages": self.crash,
            "ListConversations": self.crash,
            "ListUsers": self.crash,
            "ExportMessages": self.crash_midway,
        }
        return {name: ServedMethod(RequiredScopes(frozenset(Scope)), answer) for name, answer in answers.items()}

    async def crash_midway(self, _request: object, _context: CallContext) -> AsyncIterator[bytes]:
        yield b""
        raise RuntimeError(PRIVATE)

    async def crash(self, _request: object, _context: CallContext) -> bytes:
        raise RuntimeError(PRIVATE)

    async def hang(self, _request: object, _context: CallContext) -> bytes:
        await asyncio.sleep(60)
        return b""

    async def refuse(self, _request: object, _context: CallContext) -> bytes:
        raise Fault(Reason.ERROR_REASON_EMBEDDER_UNAVAILABLE, "the embedder does not respond", retry_after_s=1.5)

    async def many_violations(self, request: q.BatchGetMessagesRequest, _context: CallContext) -> bytes:
        from nomemory.server.faults import Violation, build_invalid_argument_fault  # noqa: PLC0415 - of this case only

        raise build_invalid_argument_fault(
            [Violation(f"message_ids[{n}]", "must not be blank") for n, _ in enumerate(request.message_ids)]
        )


@asynccontextmanager
async def misbehaving(**changed: float) -> AsyncIterator[Any]:
    settings = Settings.from_environment(drain_timeout_s=0.0, **changed)
    access = AccessControl(LocalAuthenticator())
    async with (
        running_servers([Misbehaving()], ListenAddresses(ListenAddress("127.0.0.1", 0)), settings, access) as address,
        grpc.aio.insecure_channel(str(address)) as channel,
    ):
        yield QueryServiceStub(channel)


async def test_unexpected_error_reveals_nothing() -> None:
    async with misbehaving() as stub:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stub.ListMessages(q.ListMessagesRequest(), metadata=(("x-request-id", "trace-1"),))
    refused = refusal(error.value)
    assert (refused.code, refused.reason, refused.text) == (grpc.StatusCode.INTERNAL, "INTERNAL", "internal error")
    assert dict(error.value.trailing_metadata() or ())["x-request-id"] == "trace-1"
    assert PRIVATE not in repr(error.value) + str(error.value.trailing_metadata())


async def test_interrupted_stream_reveals_no_details() -> None:
    async with misbehaving() as stub:
        stream = stub.ExportMessages(q.ExportMessagesRequest())
        assert await stream.read() == q.ExportMessagesResponse()
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stream.read()
    assert refusal(error.value).code is grpc.StatusCode.INTERNAL
    assert PRIVATE not in repr(error.value) + str(error.value.trailing_metadata())


async def test_server_deadline_applies_without_a_client_deadline() -> None:
    async with misbehaving(default_deadline_s=0.05) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stub.LexicalSearch(q.LexicalSearchRequest())
    refused = refusal(error.value)
    assert (refused.code, refused.reason) == (grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED")


async def test_transient_errors_have_a_retry_delay() -> None:
    async with misbehaving() as stub:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stub.SemanticSearch(q.SemanticSearchRequest())
    refused = refusal(error.value)
    assert (refused.code, refused.retry_s) == (grpc.StatusCode.UNAVAILABLE, 1.5)


async def test_status_with_1000_violations_fits_into_headers() -> None:
    async with misbehaving() as stub:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stub.BatchGetMessages(q.BatchGetMessagesRequest(message_ids=[""] * 5000))
    refused = refusal(error.value)
    assert refused.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "5000" in refused.text or len(refused.fields) > 10


def test_request_id_is_returned_or_generated(vector_server: Server) -> None:
    _, call = vector_server.query.ListMessages.with_call(
        q.ListMessagesRequest(user_id="u"), metadata=(("x-request-id", "mine"),)
    )
    assert dict(call.trailing_metadata())["x-request-id"] == "mine"
    _, call = vector_server.query.ListMessages.with_call(q.ListMessagesRequest(user_id="u"))
    assert len(dict(call.trailing_metadata())["x-request-id"]) == 26


def test_health_check_covers_the_server_and_each_service(vector_server: Server) -> None:
    with grpc.insecure_channel(vector_server.target) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for name in ("", "nomemory.v1.QueryService", "nomemory.v1.IngestService"):
            reply = stub.Check(health_pb2.HealthCheckRequest(service=name))
            assert reply.status == health_pb2.HealthCheckResponse.SERVING


def test_request_above_the_size_limit_is_rejected(vector_server: Server) -> None:
    with pytest.raises(grpc.RpcError) as error:
        vector_server.ingest.WriteMessages(
            i.WriteMessagesRequest(messages=[new_message("u", f"m{n}", "x" * 250_000) for n in range(70)])
        )
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def buf_curl(server: Server, method: str, body: str) -> subprocess.CompletedProcess[str]:
    command = [
        str(Path(sys.executable).with_name("buf")),
        "curl",
        "--protocol",
        "grpc",
        "--http2-prior-knowledge",
        "-d",
        body,
        f"http://{server.target}/{method}",
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


def grpcurl(server: Server, method: str, body: str) -> subprocess.CompletedProcess[str]:
    command = [shutil.which("grpcurl") or "", "-plaintext", "-d", body, server.target, method]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


@pytest.mark.parametrize(
    "client",
    [
        buf_curl,
        pytest.param(
            grpcurl, marks=pytest.mark.skipif(not shutil.which("grpcurl"), reason="grpcurl is not on the PATH")
        ),
    ],
)
def test_reflection_clients_can_call_without_proto_files(
    vector_server: Server, user: str, client: Callable[[Server, str, str], subprocess.CompletedProcess[str]]
) -> None:
    message = {"user_id": user, "role": "ROLE_USER", "ts": "2026-03-01T08:00:00.25Z", "content": "我不吃辣"}
    written = client(vector_server, "nomemory.v1.IngestService/WriteMessages", json.dumps({"messages": [message]}))
    reply = json.loads(written.stdout)
    token = reply.get("writeToken") or reply["write_token"]  # some clients print JSON names, others the field names
    query = {"user_id": user, "query_text": '"不吃辣"', "highlight": {}, "at_least": token}
    response = json.loads(client(vector_server, "nomemory.v1.QueryService/LexicalSearch", json.dumps(query)).stdout)
    assert response["items"][0]["content"] == "我不吃辣"
    assert response["items"][0]["ts"] == "2026-03-01T08:00:00.250Z"
    assert response["highlights"][0]["spans"] == [{"start": 1, "end": 4}]
    bad = client(vector_server, "nomemory.v1.QueryService/ListMessages", '{"user_id": "", "page_size": 501}')
    assert bad.returncode != 0
    assert "user_id" in bad.stderr
    assert "page_size" in bad.stderr
