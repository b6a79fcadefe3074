"""Tests for `scripts/conformance`: every kind of server passes, and contract violations are detected."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
import pytest
from google.protobuf.message import Message

from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from proofs.conformance.golden_server import run_golden_server
from proofs.conformance.main import main

if TYPE_CHECKING:
    from running_server import Server

pytestmark = pytest.mark.timeout(300)

QDRANT = os.environ.get("NOMEMORY_TEST_QDRANT_URL", "")
Change = Callable[[bytes], bytes]
Kind = TypeVar("Kind", bound=Message)
Result = TypeVar("Result")


@pytest.mark.proof
@pytest.mark.both_logs
def test_replicas_conform_on_each_message_log(vector_server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--target", *(vector_server.replicas or (vector_server.target,))])
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert printed.endswith("all checks passed\n")
    users = vector_server.query.ListUsers(q.ListUsersRequest(page_size=500)).users
    assert not [user for user in users if user.user_id.startswith("conformance-")]  # the check erases its users


@pytest.mark.proof
def test_server_with_an_embedder_conforms(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--target", server.target])
    assert code == 0, capsys.readouterr().out


@pytest.mark.proof
def test_server_with_keys_and_tls_conforms(capsys: pytest.CaptureFixture[str]) -> None:
    with run_golden_server() as golden_settings:
        reached = json.loads(golden_settings.read_text())
        client_options = ["--target", reached["target"], "--tls-ca", reached["authorities"]]
        assert main([*client_options, "--token", reached["bearers"]["service"], "--only", "a batch is written"]) == 0
        assert "passed    scenario: a batch is written" in capsys.readouterr().out
        assert main(client_options) == 1
        assert "UNAUTHENTICATED" in capsys.readouterr().out


@pytest.mark.proof
def test_server_conforms_over_http(
    own_settings: Settings,
    start: Callable[[Settings], AbstractContextManager[Server]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    with start(own_settings.copy_with_changes(http_listen="127.0.0.1:0")) as server:
        code = main(["--target", server.http])
        assert code == 0, capsys.readouterr().out


@pytest.mark.proof
@pytest.mark.skipif(not QDRANT, reason="NOMEMORY_TEST_QDRANT_URL is not set")
def test_server_with_qdrant_vectors_conforms(
    own_settings: Settings,
    start: Callable[[Settings], AbstractContextManager[Server]],
    postgres_url: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with start(own_settings.copy_with_changes(database_url=postgres_url, qdrant_url=QDRANT)) as server:
        code = main(["--target", server.target])
        assert code == 0, capsys.readouterr().out


def _as_it_is(raw: bytes) -> bytes:
    return raw


def _changed(kind: type[Kind], change: Callable[[Kind], object]) -> Change:
    def changed(raw: bytes) -> bytes:
        message = kind.FromString(raw)
        change(message)
        return message.SerializeToString()

    return changed


def _add_foreign_message(page: q.ListMessagesResponse) -> None:
    page.items.add(message_id="stranger")


def _drop_the_last_hit(reply: q.SemanticSearchResponse) -> None:
    del reply.items[-1:]


def _drop_the_last(page: q.ListMessagesResponse) -> None:
    del page.items[-1:]


def _count_one_more(reply: q.CountMessagesResponse) -> None:
    reply.count += 1


def _repeat_the_first(page: q.LexicalSearchResponse) -> None:
    page.items.extend(page.items[:1])


def _delete_something_else(request: i.DeleteMessagesRequest) -> None:
    request.ClearField("filter")
    request.message_ids[:] = ["nobody"]


@pytest.mark.parametrize(
    ("method", "request_change", "answered", "promise"),
    [
        ("ListMessages", _as_it_is, _changed(q.ListMessagesResponse, _drop_the_last), "in both orders"),
        (
            "ListMessages",
            _as_it_is,
            _changed(q.ListMessagesResponse, _add_foreign_message),
            "limited to the user's messages",
        ),
        ("CountMessages", _as_it_is, _changed(q.CountMessagesResponse, _count_one_more), "counts, lists"),
        ("LexicalSearch", _as_it_is, _changed(q.LexicalSearchResponse, _repeat_the_first), "combinations in Chinese"),
        (
            "SemanticSearch",
            _as_it_is,
            _changed(q.SemanticSearchResponse, _drop_the_last_hit),
            "returns all messages by score",
        ),
        (
            "DeleteMessages",
            _changed(i.DeleteMessagesRequest, _delete_something_else),
            _as_it_is,
            "absent from every read",
        ),
    ],
)
def test_contract_violation_is_detected(
    vector_server: Server,
    method: str,
    request_change: Change,
    answered: Change,
    promise: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with _passing_on(vector_server.target, "", _as_it_is, _as_it_is) as target:
        assert main(["--target", target, "--only", promise]) == 0
    with _passing_on(vector_server.target, method, request_change, answered) as target:
        assert main(["--target", target, "--only", promise]) == 1
    assert "FAILED" in capsys.readouterr().out


@contextmanager
def _passing_on(behind: str, method: str, request_change: Change, answered: Change) -> Iterator[str]:
    """Forward all calls to a server; requests and replies of one method are modified."""
    with grpc.insecure_channel(behind) as channel, ThreadPoolExecutor(8) as threads:
        server = grpc.server(threads)
        server.add_generic_rpc_handlers([_PassesOn(channel, method, request_change, answered)])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.stop(None).wait()


class _PassesOn(grpc.GenericRpcHandler):
    def __init__(self, channel: grpc.Channel, method: str, request_change: Change, answered: Change) -> None:
        self._channel: Any = channel  # without serializers its methods take bytes, which its types do not say
        self._method = method
        self._changes = request_change, answered

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        path = str(details.method)
        request_change, answered = self._changes if path.rpartition("/")[2] == self._method else (_as_it_is, _as_it_is)
        if path.endswith("/ExportMessages"):
            return grpc.unary_stream_rpc_method_handler(
                lambda raw, context: _done(context, lambda: iter(list(self._channel.unary_stream(path)(raw))))
            )
        return grpc.unary_unary_rpc_method_handler(
            lambda raw, context: _done(context, lambda: answered(self._channel.unary_unary(path)(request_change(raw))))
        )


def _done(context: grpc.ServicerContext, call: Callable[[], Result]) -> Result:
    try:
        return call()
    except grpc.RpcError as error:
        context.abort(error.code(), str(error.details()))
