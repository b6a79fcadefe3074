"""Tests that applications in different namespaces of one server are isolated.

The requests are built from the contract's descriptors, so new RPCs are included automatically.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from identity.calls import Metadata, bearer
from identity.contract import METHODS, RpcMethod
from identity.keyring import Keyring
from isolation.request_builder import Values, filled

from chat_messages import ids, new_message
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from rpc_errors import refusal
from running_server import settings_without_embedder, started

CANARY = "zephyrquill"
VICTIM = "lin"
EAST = (1.0, 0.0, 0.0, 0.0)
SCOPES = ("query", "ingest", "recall", "act-as", "admin")
NAMESPACES = ["b", "a", "a.b", "B", "b-", None]
"""The first is the victim's. None sees everything: it is the operator's, and no attacker."""
ATTACKERS = NAMESPACES[1:-1]

PATHS = ["lin", "b/lin", "/b/lin", "//b/lin", "../b/lin", "a/../b/lin", "./lin"]
"""Every attacker tries these, and the first tries all spellings."""
SPELLINGS = [
    *PATHS, "b", "b/", "/", ".", "..", "*", "%", "_", "", " ", "\u3000", "林", "ｂ／ｌｉｎ", "b\u2215lin",
    "b%2Flin", "lin\u200b", "LIN", "lin\n", "\nb/lin", "lin\0", "\0b/lin", "b\\lin", "' OR 1=1 --", "x" * 128,
    "x" * 129,
]  # fmt: skip


@dataclass(frozen=True)
class StolenData:
    """Data of the victim that an attacker may have obtained."""

    cursors: list[str]
    write_token: str


class Application:
    """An application with its API key."""

    def __init__(self, channel: grpc.Channel, keyring: Keyring, namespace: str | None) -> None:
        self.channel = channel
        self.metadata = bearer(keyring.key(*SCOPES, name="application", namespace=namespace))
        self.query, self.ingest = QueryServiceStub(channel), IngestServiceStub(channel)

    def write(self, *messages: m.ChatMessage) -> str:
        request = i.WriteMessagesRequest(messages=messages)
        return self.ingest.WriteMessages(request, metadata=self.metadata, timeout=10).write_token

    def list(self, user: str, **fields: Any) -> q.ListMessagesResponse:  # noqa: ANN401 - any field of the request
        request = q.ListMessagesRequest(user_id=user, **fields)
        return self.query.ListMessages(request, metadata=self.metadata, timeout=10)

    def status(self, user: str = "") -> i.GetIndexStatusResponse:
        return self.ingest.GetIndexStatus(i.GetIndexStatusRequest(user_id=user), metadata=self.metadata, timeout=10)


@dataclass(frozen=True)
class Shared:
    """A server shared by several applications."""

    applications: dict[str | None, Application]
    loot: StolenData

    @property
    def victim(self) -> Application:
        return self.applications["b"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """A server with messages of the victim, and of one user with the same id for each attacker."""
    keyring = Keyring(tmp_path_factory.mktemp("keys") / "keys.json")
    keyring.key("query")
    settings = settings_without_embedder(tmp_path_factory.mktemp("shared") / "data", api_keys=keyring.path)
    with started(settings) as server, grpc.insecure_channel(server.target) as channel:
        applications = {name: Application(channel, keyring, name) for name in NAMESPACES}
        victim = applications["b"]
        token = victim.write(*(secret(VICTIM, n) for n in range(5)), secret("victim-only", 9))
        for attacker in ATTACKERS:
            applications[attacker].write(new_message(VICTIM, "m0", "tea of my own", embedding=EAST))
        yield Shared(applications, StolenData(_cursors(victim, token), token))


def secret(user: str, n: int) -> m.ChatMessage:
    return new_message(user, f"m{n}", f"{CANARY} tea {n}", ts=n, name=CANARY, conversation_id=CANARY, embedding=EAST)


def _cursors(victim: Application, token: str) -> list[str]:
    words = q.LexicalSearchRequest(user_id=VICTIM, query_text="tea", page_size=2, at_least=token)
    searched = victim.query.LexicalSearch(words, metadata=victim.metadata, timeout=10)
    return [victim.list(VICTIM, page_size=2).next_cursor, searched.next_cursor]


def values(user: str, loot: StolenData, cursor: str = "") -> Values:
    """Return the field values for every request."""
    return {
        "user_id": user,
        "message_id": "m1",
        "message_ids": ["m0", "m1", "m2", "m9"],
        "messages": ...,
        "ts": Timestamp(seconds=7),
        "role": m.ROLE_USER,
        "content": "an attack",
        "query_text": "tea",
        "question": "What about tea?",
        "recall": ...,
        "query_embedding": q.Embedding(values=EAST),
        "cursor": cursor,
        "at_least": loot.write_token,
        "include_trace": True,
        "replace": True,
        "request_id": "one of the victim's",
        "explain": True,
    }


def outcome(method: RpcMethod, application: Application, request: Any, *named: str) -> str:  # noqa: ANN401 - any request
    """Make a call; return its responses or its error details."""
    metadata: Metadata = (*application.metadata, *(("x-user-id-bin", each.encode()) for each in named))
    try:
        replies = method.send(application.channel, request, metadata)
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.INTERNAL:
            raise
        return f"{error.code()} {error.details()} {error.trailing_metadata()}"
    return " ".join(map(str, replies))


def users_of_the_victim(shared: Shared) -> list[object]:
    """Return all data of the victim as seen by the victim."""
    victim = shared.victim
    return [list(victim.list(user).items) for user in (VICTIM, "victim-only")] + [victim.status().log]


@pytest.mark.parametrize("name", METHODS)
def test_no_user_id_reaches_another_namespace(shared: Shared, name: str) -> None:
    method, before = METHODS[name], users_of_the_victim(shared)
    first, *others = ATTACKERS
    attempts = [(first, spelling) for spelling in SPELLINGS]
    attempts += [(other, spelling) for other in others for spelling in PATHS]
    for attacker, spelling in attempts:
        cursors = ("", *shared.loot.cursors)
        requests = [filled(method.request_type, values(spelling, shared.loot, cursor)) for cursor in cursors]
        for request in requests if requests[0] != requests[1] else requests[:1]:  # most have no cursor
            reply = outcome(method, shared.applications[attacker], request, spelling)
            assert CANARY not in reply
            assert "victim-only" not in reply
            assert f"{attacker}/" not in reply.replace(spelling, "") if spelling else f"{attacker}/" not in reply
    assert users_of_the_victim(shared) == before


@pytest.mark.parametrize("attacker", ATTACKERS)
@pytest.mark.parametrize("name", METHODS)
def test_user_ids_in_metadata_do_not_reach_another_namespace(shared: Shared, name: str, attacker: str) -> None:
    method, application = METHODS[name], shared.applications[attacker]
    request = filled(method.request_type, values(VICTIM, shared.loot))
    for named in ([VICTIM, "b/lin"], ["b/lin"], ["../b/lin", "b/lin"], [""], []):
        assert CANARY not in outcome(method, application, request, *named)


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.names_users()])
def test_user_id_limit_excludes_the_namespace_prefix(shared: Shared, name: str) -> None:
    method, application = METHODS[name], shared.applications["a.b"]
    longest = filled(method.request_type, values("y" * 128, shared.loot))
    assert "128 characters" not in outcome(method, application, longest)
    too_long = filled(method.request_type, values("a/" + "y" * 127, shared.loot))
    assert "user_id" in outcome(method, application, too_long)
    assert "128 characters" in outcome(method, application, too_long)


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.names_users()])
def test_caller_without_namespace_can_use_the_longest_stored_id(shared: Shared, name: str) -> None:
    method = METHODS[name]
    if method.descriptor.containing_service.name == "IngestService" and name != "GetIndexStatus":
        return  # this call would write into the namespaces of the other tests
    longest = filled(method.request_type, values("b/" + "y" * 128, shared.loot))
    assert "128 characters" not in outcome(method, shared.applications[None], longest)


def test_cursor_of_the_same_user_id_in_another_namespace_is_rejected(shared: Shared) -> None:
    with pytest.raises(grpc.RpcError) as error:
        shared.applications["a"].list(VICTIM, cursor=shared.loot.cursors[0])
    assert refusal(error.value).reason == "CURSOR_OTHER_USER"


def test_same_user_id_in_two_namespaces_is_two_users(shared: Shared) -> None:
    for attacker in ATTACKERS:
        attacker_message = new_message(VICTIM, "own", f"tea of {attacker}", ts=99)
        shared.applications[attacker].write(attacker_message)
        assert list(shared.applications[attacker].list(VICTIM, page_size=1).items) == [attacker_message]
    assert len(shared.victim.list(VICTIM).items) == 5
    assert {message.user_id for message in shared.victim.list(VICTIM).items} == {VICTIM}


def test_caller_without_namespace_sees_stored_ids(shared: Shared) -> None:
    operator = shared.applications[None]
    assert ids(operator.list("b/lin").items) == ids(shared.victim.list(VICTIM).items)
    assert {message.user_id for message in operator.list("b/lin").items} == {"b/lin"}
    assert not operator.list(VICTIM).items
    assert operator.status().log.users > shared.victim.status().log.users == 2
    assert operator.status("b/lin").log.messages == 5


def test_namespace_status_ignores_other_namespaces(shared: Shared) -> None:
    attacker = shared.applications["B"]
    attacker.write(new_message("counted", "m", "tea", embedding=EAST))
    before = attacker.status(), attacker.status("counted"), attacker.status("nobody")
    shared.victim.write(*(new_message("flood", f"m{n}", "tea", embedding=EAST) for n in range(300)))
    after = attacker.status(), attacker.status("counted"), attacker.status("nobody")
    assert [status.log for status in before] == [status.log for status in after]
    for status in (*before, *after):
        counters = (status.log.sequence, status.lexical.checkpoint, status.vector.checkpoint)
        assert (*counters, status.embedder.texts_embedded) == (0, 0, 0, 0)
        assert status.lexical.pending <= status.log.messages
        assert status.vector.pending <= status.log.messages
    assert before[2].log.messages == 0


def test_token_and_cursor_lengths_do_not_reveal_other_writes(shared: Shared) -> None:
    attacker = shared.applications["b-"]
    lengths = set()
    for n in range(8):
        shared.victim.write(*(new_message("noise", f"n{n}-{k}", "tea", embedding=EAST) for k in range(3 ** min(n, 6))))
        token = attacker.write(new_message("measured", f"m{n % 2}", "tea", embedding=EAST))
        attacker.write(new_message("measured", "m1", "tea", embedding=EAST))
        lengths.add((len(token), len(attacker.list("measured", page_size=1).next_cursor)))
    assert len(lengths) == 1


def test_user_listing_is_restricted_to_the_namespace(shared: Shared) -> None:
    method, application = METHODS["ListUsers"], shared.applications["a"]
    application.write(new_message("listed", "m", "tea"), new_message("listed/too", "m", "tea"))
    outcome(method, application, method.request_type())
    listed_users: list[str] = []
    cursor = ""
    while not listed_users or cursor:
        (page,) = method.send(application.channel, q.ListUsersRequest(page_size=1, cursor=cursor), application.metadata)
        listed_users.extend(item.user_id for item in page.users)
        cursor = page.next_cursor
        if cursor:
            assert "CURSOR_OTHER_USER" in outcome(method, shared.victim, q.ListUsersRequest(cursor=cursor))
    assert {"listed", "listed/too"} <= set(listed_users)
    assert listed_users == sorted(set(listed_users))
    assert not any(user.startswith(("a/", "b/")) and user not in SPELLINGS for user in listed_users)
