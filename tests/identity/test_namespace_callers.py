"""Tests for callers in a namespace: recalls, user tokens, responses and logs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pool
from identity.authenticated_server import Guarded
from identity.calls import READS, Metadata, bearer, listing, recall, refused, write
from identity.issuer import AUDIENCE, ISSUER, SECRET, token
from identity.keyring import Keyring

from chat_messages import ids, new_message
from nomemory.server.api.call import CallContext
from nomemory.server.api.identity.access import AccessControl, RequiredScopes
from nomemory.server.api.identity.caller import Caller, Scope
from nomemory.server.api.identity.namespace import Namespace
from nomemory.server.api.service import ServedMethod
from nomemory.server.runtime.listen_address import ListenAddress, ListenAddresses
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.serving import running_servers
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1 import recall_service_pb2 as r
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from nomemory.v1.recall_service_pb2_grpc import RecallServiceStub
from rpc_errors import refusal
from running_server import settings_without_embedder, started

TOKENS = {"jwt_secret": SECRET, "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}


@pytest.fixture(scope="module")
def confined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A server with a key file whose tokens belong to the namespace `acme`."""
    keyring = Keyring(tmp_path_factory.mktemp("keys") / "keys.json")
    keyring.key("query")
    settings = settings_without_embedder(
        tmp_path_factory.mktemp("confined") / "data", api_keys=keyring.path, jwt_namespace="acme", **TOKENS
    )
    with started(settings) as server, grpc.insecure_channel(server.target) as channel:
        yield Guarded(channel, keyring, server.target)


def key(server: Guarded, *scopes: str, namespace: str | None = None) -> Metadata:
    return bearer(server.keyring.key(*scopes, namespace=namespace))


def remember(server: Guarded, user: str) -> None:
    """Write a message of a user in `acme`, and wait until it is lexically indexed."""
    metadata = key(server, "ingest", "query", namespace="acme")
    written = write(server.channel, user, metadata).write_token
    search = q.LexicalSearchRequest(user_id=user, query_text="tea", at_least=written)
    QueryServiceStub(server.channel).LexicalSearch(search, metadata=metadata, timeout=10)


def test_token_reads_its_user_in_the_configured_namespace(confined: Guarded, user: str) -> None:
    remember(confined, user)
    token_metadata = bearer(token(user))
    assert [message.user_id for message in listing(confined.channel, user, token_metadata).items] == [user]
    for name in READS:
        READS[name].send(confined.channel, user, token_metadata)
    evidence = recall(confined.channel, user, (*token_metadata, ("x-user-id", user))).evidence
    assert ids(item.message for item in evidence) == ["m1"]


@pytest.mark.parametrize("named", ["acme/{}", "other/{}", "../acme/{}", "/{}"])
def test_token_is_rejected_for_its_stored_user_id(confined: Guarded, user: str, named: str) -> None:
    for name in READS:
        refusal = refused(READS[name].send, confined.channel, named.format(user), bearer(token(user)))
        assert refusal.reason == "OTHER_USER"
        assert "acme" not in refusal.text


def test_token_does_not_read_the_same_user_id_in_another_namespace(confined: Guarded, user: str) -> None:
    write(confined.channel, user, key(confined, "ingest", namespace="other"))
    write(confined.channel, user, key(confined, "ingest"))
    assert not listing(confined.channel, user, bearer(token(user))).items
    assert not recall(confined.channel, user, bearer(token(user))).evidence
    write(confined.channel, f"other/{user}", key(confined, "ingest", namespace="acme"))
    sub = f"other/{user}"
    assert [message.user_id for message in listing(confined.channel, sub, bearer(token(sub))).items] == [sub]


def test_length_limit_of_token_user_id_excludes_the_prefix(confined: Guarded) -> None:
    listing(confined.channel, "y" * 128, bearer(token("y" * 128)))
    for too_long in ("y" * 129, "a/" + "y" * 128):
        assert refused(listing, confined.channel, too_long, bearer(token(too_long))).reason == "CREDENTIALS_INVALID"


def test_recall_reads_the_bound_user_of_the_namespace(confined: Guarded, user: str) -> None:
    remember(confined, user)
    scopes = ("recall", "act-as")
    own_key, other = (key(confined, *scopes, namespace=name) for name in ("acme", "other"))
    for reader in own_key, other:
        request = r.StreamRecallRequest(question="tea?")
        for named in (user, f"acme/{user}", f"../acme/{user}"):
            metadata = (*reader, ("x-user-id", named))
            reply = str(recall(confined.channel, user, metadata))
            reply += str(list(RecallServiceStub(confined.channel).StreamRecall(request, metadata=metadata, timeout=10)))
            assert ('message_id: "m1"' in reply) == (reader is own_key and named == user)
            assert "acme" not in reply


@pytest.mark.parametrize("named", ["", " ", "y" * 129, "a/" + "y" * 127, "lin\n"])
def test_recall_for_an_invalid_user_id_is_rejected(confined: Guarded, named: str) -> None:
    metadata = (*key(confined, "recall", "act-as", namespace="acme"), ("x-user-id-bin", named.encode()))
    assert refused(recall, confined.channel, "", metadata).reason == "USER_NOT_BOUND"


def test_recall_for_the_longest_user_id_is_accepted(confined: Guarded) -> None:
    for namespace, named in ("acme", "y" * 128), (None, "acme/" + "y" * 128):
        recall(confined.channel, "", (*key(confined, "recall", "act-as", namespace=namespace), ("x-user-id", named)))


def test_field_mask_excludes_fields_with_a_namespace(confined: Guarded, user: str) -> None:
    write(confined.channel, user, key(confined, "ingest", namespace="acme"))
    request = q.ListMessagesRequest(user_id=user)
    request.return_fields.paths.append("content")
    metadata = key(confined, "query", namespace="acme")
    (message,) = QueryServiceStub(confined.channel).ListMessages(request, metadata=metadata, timeout=10).items
    assert (message.user_id, message.message_id, message.content) == ("", "m1", "tea")


class Leaking:
    """Services whose responses contain user ids of other namespaces."""

    def __init__(self, full_name: str, reply: Any) -> None:  # noqa: ANN401 - any reply
        self.full_name = full_name
        self.reply = reply

    def methods(self) -> Mapping[str, ServedMethod]:
        need, methods = (
            RequiredScopes(frozenset({Scope.QUERY})),
            descriptor_pool.Default().FindServiceByName(self.full_name).methods,
        )
        return {
            method.name: ServedMethod(need, self.stream if method.server_streaming else self.once) for method in methods
        }

    async def once(self, _request: object, _context: CallContext) -> bytes:
        reply: bytes = self.reply.SerializeToString()
        return reply

    async def stream(self, _request: object, _context: CallContext) -> AsyncIterator[r.StreamRecallResponse]:
        yield r.StreamRecallResponse(step=r.RecallStep(iteration=1))
        yield r.StreamRecallResponse(result=self.reply)


class Acme:
    """Authenticates every caller as a service of the namespace `acme`."""

    async def authenticate(self, *_: object) -> Caller:
        return Caller("chat", frozenset({Scope.QUERY}), namespace=Namespace("acme"))


@asynccontextmanager
async def leaking(full_name: str, reply: object) -> AsyncIterator[grpc.aio.Channel]:
    settings = Settings.from_environment(drain_timeout_s=0.0)
    access = AccessControl(Acme())
    async with (
        running_servers(
            [Leaking(full_name, reply)], ListenAddresses(ListenAddress("127.0.0.1", 0)), settings, access
        ) as address,
        grpc.aio.insecure_channel(str(address)) as channel,
    ):
        yield channel


FOREIGN = ["other/lin", "lin", "acme", "acm/lin", "acme.b/lin", "Acme/lin", "/acme/lin", " "]


@pytest.mark.parametrize("foreign", FOREIGN)
async def test_response_with_a_foreign_user_id_is_not_sent(foreign: str) -> None:
    listed = q.ListMessagesResponse(items=[new_message("acme/lin", "m1", "tea"), new_message(foreign, "m2", "canary")])
    async with leaking("nomemory.v1.QueryService", listed) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await QueryServiceStub(channel).ListMessages(q.ListMessagesRequest(user_id="lin"))
    assert (refusal(error.value).reason, error.value.details()) == ("INTERNAL", "internal error")


@pytest.mark.parametrize("foreign", FOREIGN)
async def test_stream_message_with_a_foreign_user_id_is_not_sent(foreign: str) -> None:
    result = r.RecallResponse(evidence=[r.EvidenceMessage(message=new_message(foreign, "m2", "canary"))])
    async with leaking("nomemory.v1.RecallService", result) as channel:
        stream = RecallServiceStub(channel).StreamRecall(r.StreamRecallRequest())
        first = await stream.read()
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stream.read()
        with pytest.raises(grpc.aio.AioRpcError):
            await RecallServiceStub(channel).Recall(r.RecallRequest())
    assert first == r.StreamRecallResponse(step=r.RecallStep(iteration=1))
    assert refusal(error.value).reason == "INTERNAL"


async def test_response_user_ids_have_no_prefix() -> None:
    listed = q.ListMessagesResponse(
        items=[new_message("acme/lin", "m1", "tea"), new_message("acme/acme/x", "m2", "")], next_cursor="c"
    )
    async with leaking("nomemory.v1.QueryService", listed) as channel:
        reply = await QueryServiceStub(channel).ListMessages(q.ListMessagesRequest(user_id="lin"))
    assert ([message.user_id for message in reply.items], reply.next_cursor) == (["lin", "acme/x"], "c")
