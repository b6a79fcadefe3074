"""Tests that a user token reads only its user, with any RPC and any user id in the request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from identity.calls import ADMINISTERS, EVERY, READS, RECALLS, Metadata, bearer, listing, recall, refused, status, write
from identity.issuer import token

from chat_messages import ids, new_message
from nomemory.server.api.call import CallContext
from nomemory.server.api.identity.access import AccessControl, RequiredScopes, restrict_to_caller
from nomemory.server.api.identity.caller import Caller, Scope
from nomemory.server.api.identity.user_fields import find_user_ids
from nomemory.server.api.service import ServedMethod
from nomemory.server.faults import Fault
from nomemory.server.runtime.listen_address import ListenAddress, ListenAddresses
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.serving import running_servers
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from rpc_errors import refusal

if TYPE_CHECKING:
    from identity.authenticated_server import Guarded

CANARY = "canary in another user"


@pytest.fixture
def other(guarded: Guarded, user: str) -> str:
    """Another user with messages."""
    other = f"{user}-other"
    write(guarded.channel, other, bearer(guarded.keyring.key("ingest", name=CANARY.replace(" ", "-"))))
    return other


@pytest.mark.parametrize("name", READS)
def test_token_reads_its_own_user(guarded: Guarded, user: str, name: str) -> None:
    write(guarded.channel, user, bearer(guarded.keyring.key("ingest")))
    READS[name].send(guarded.channel, user, bearer(token(user)))


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("spelling", ["{other}", "", " ", "{user} ", "{user}\n", "{USER}", "{user}\0"])
def test_token_is_rejected_for_another_user(guarded: Guarded, user: str, other: str, name: str, spelling: str) -> None:
    spelled_user = spelling.format(user=user, USER=user.upper(), other=other)
    refusal = refused(READS[name].send, guarded.channel, spelled_user, bearer(token(user)))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.PERMISSION_DENIED, "OTHER_USER")
    assert other not in refusal.text
    assert user not in refusal.text


@pytest.mark.parametrize("name", EVERY)
def test_token_with_another_user_in_metadata_is_rejected(guarded: Guarded, user: str, other: str, name: str) -> None:
    named: list[Metadata] = [
        (("x-user-id", other),),
        (("x-user-id", user), ("x-user-id", other)),
        (("x-user-id", ""),),
        (("x-user-id-bin", other.encode()),),
        (("x-user-id-bin", b"\xff"),),
    ]
    for metadata in named:
        refusal = refused(EVERY[name].send, guarded.channel, user, (*bearer(token(user)), *metadata))
        expected = {"OTHER_USER"} if name in READS | RECALLS else {"SCOPE_MISSING"}
        assert {refusal.reason} == expected


def test_token_with_its_own_user_in_metadata_is_accepted(guarded: Guarded, user: str) -> None:
    recall(guarded.channel, user, (*bearer(token(user)), ("x-user-id", user)))
    listing(guarded.channel, user, (*bearer(token(user)), ("x-user-id-bin", user.encode())))


def test_user_id_is_checked_before_other_fields(guarded: Guarded, user: str, other: str) -> None:
    request = q.ListMessagesRequest(user_id=other, page_size=-1, cursor="no cursor")
    with pytest.raises(grpc.RpcError) as error:
        QueryServiceStub(guarded.channel).ListMessages(request, metadata=bearer(token(user)), timeout=10)
    assert refusal(error.value).reason == "OTHER_USER"


def test_user_token_cannot_read_server_status(guarded: Guarded, user: str) -> None:
    assert refused(status, guarded.channel, "", bearer(token(user))).reason == "OTHER_USER"
    assert status(guarded.channel, user, bearer(token(user))).log.users == 0


@pytest.mark.parametrize("scope", ["", "openid email", "ingest admin act-as", "QUERY", "query,recall"])
def test_token_without_the_scope_is_rejected(guarded: Guarded, user: str, scope: str) -> None:
    for name in READS | RECALLS:
        refusal = refused(EVERY[name].send, guarded.channel, user, bearer(token(user, scope=scope)))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.PERMISSION_DENIED, "SCOPE_MISSING")


def test_scopes_are_accepted_in_the_scp_claim(guarded: Guarded, user: str) -> None:
    listing(guarded.channel, user, bearer(token(user, scope=None, scp=["query"])))
    listing(guarded.channel, user, bearer(token(user, scope=None, scp="query openid")))
    assert refused(listing, guarded.channel, user, bearer(token(user, scope=None))).reason == "SCOPE_MISSING"
    for odd in ({"query": True}, 7, [["query"]]):
        assert refused(listing, guarded.channel, user, bearer(token(user, scope=odd))).reason == "CREDENTIALS_INVALID"


def test_token_cannot_read_other_users_with_lifecycle_methods(guarded: Guarded, user: str, other: str) -> None:
    own_token, query = bearer(token(user)), QueryServiceStub(guarded.channel)
    assert query.CountMessages(q.CountMessagesRequest(user_id=user), metadata=own_token).count == 0
    assert list(query.ExportMessages(q.ExportMessagesRequest(user_id=user), metadata=own_token)) == [
        q.ExportMessagesResponse()
    ]
    assert not query.ListConversations(q.ListConversationsRequest(user_id=user), metadata=own_token).conversations
    service = bearer(guarded.keyring.key("query"))
    assert query.CountMessages(q.CountMessagesRequest(user_id=other), metadata=service).count == 1


def test_user_token_cannot_list_users(guarded: Guarded, user: str) -> None:
    refusal = refused(ADMINISTERS["ListUsers"].send, guarded.channel, user, bearer(token(user, scope="query admin")))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.PERMISSION_DENIED, "SCOPE_MISSING")


def confine_own(request: i.WriteMessagesRequest) -> None:
    """Confine a request with the token of the user `me`."""
    caller = Caller("user-token", frozenset({Scope.QUERY}), "me")
    restrict_to_caller(request, caller, None, RequiredScopes(frozenset({Scope.QUERY})))


def test_nested_user_ids_are_found() -> None:
    request = i.WriteMessagesRequest(
        messages=[new_message("me", "a", "x"), new_message("", "b", "x"), new_message("them", "c", "x")]
    )
    assert list(find_user_ids(request)) == ["me", "", "them"]
    with pytest.raises(Fault):
        confine_own(request)
    confine_own(i.WriteMessagesRequest(messages=[new_message("me", "a", "x")]))


def test_request_without_user_id_is_rejected_for_user_tokens() -> None:
    with pytest.raises(Fault):
        confine_own(i.WriteMessagesRequest())


def test_user_caller_with_write_scopes_is_invalid() -> None:
    for scope in set(Scope) - {Scope.QUERY, Scope.RECALL}:
        with pytest.raises(ValueError, match="only have read scopes"):
            Caller("user-token", frozenset({scope}), "me")


class Imports:
    """An IngestService that accepts user tokens and records the received batches."""

    full_name = "nomemory.v1.IngestService"

    def __init__(self) -> None:
        self.seen: list[str] = []

    def methods(self) -> Mapping[str, ServedMethod]:
        need, others = (
            RequiredScopes(frozenset({Scope.QUERY})),
            ("WriteMessages", "DeleteMessages", "EraseUser", "GetIndexStatus"),
        )
        return {
            **dict.fromkeys(others, ServedMethod(need, self.nothing)),
            "ImportMessages": ServedMethod(need, self.take),
        }

    async def nothing(self, _request: object, _context: CallContext) -> bytes:
        return b""

    async def take(self, requests: AsyncIterator[i.ImportMessagesRequest], _context: CallContext) -> bytes:
        async for request in requests:
            self.seen.extend(message.user_id for message in request.messages)
        return b""


class Myself:
    """Authenticates every caller as the user `me`."""

    async def authenticate(self, *_: object) -> Caller:
        return Caller("user-token", frozenset({Scope.QUERY}), "me")


@asynccontextmanager
async def importing() -> AsyncIterator[tuple[Imports, Any]]:
    service, settings = Imports(), Settings.from_environment(drain_timeout_s=0.0)
    access = AccessControl(Myself())
    async with (
        running_servers([service], ListenAddresses(ListenAddress("127.0.0.1", 0)), settings, access) as address,
        grpc.aio.insecure_channel(str(address)) as channel,
    ):
        yield service, IngestServiceStub(channel)


async def test_every_request_of_a_stream_is_authorized() -> None:
    async with importing() as (service, stub):
        batches = [
            i.ImportMessagesRequest(messages=[new_message("me", "a", "x")]),
            i.ImportMessagesRequest(messages=[new_message("me", "b", "x"), new_message("them", "c", "x")]),
        ]
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stub.ImportMessages(iter(batches))
    assert refusal(error.value).reason == "OTHER_USER"
    assert service.seen == ["me"]


async def test_method_without_required_scopes_cannot_be_registered() -> None:
    class Careless(Imports):
        def methods(self) -> Mapping[str, ServedMethod]:
            return {name: method for name, method in super().methods().items() if name != "DeleteMessages"}

    settings = Settings.from_environment(drain_timeout_s=0.0)
    with pytest.raises(KeyError, match="DeleteMessages"):
        async with running_servers(
            [Careless()], ListenAddresses(ListenAddress("127.0.0.1", 0)), settings, AccessControl(Myself())
        ):
            pass


def test_concurrent_tokens_read_their_own_users(guarded: Guarded, user: str, other: str) -> None:
    write(guarded.channel, user, bearer(guarded.keyring.key("ingest")))

    def read(who: str) -> list[str]:
        return ids(listing(guarded.channel, who, bearer(token(who))).items)

    assert read(user) == ["m1"]
    assert read(other) == ["m1"]
    assert read(f"{user}-nobody") == []
