"""Tests that user isolation over HTTP equals that over gRPC for every position of a user id."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import pytest
from google.protobuf.message import Message as ProtoMessage
from identity.contract import METHODS, RpcMethod
from identity.issuer import token
from web.test_bad_requests import reason
from web.test_every_method import REQUESTS
from web.transcoding import http_request

if TYPE_CHECKING:
    from web.http_server import GuardedWeb, Web

VICTIM, SECRET_WORDS = "victim", "the victim's own words"
FORBIDDEN, UNKNOWN = 403, 401


@pytest.fixture(scope="module")
def written(guarded_web: GuardedWeb) -> str:
    """The write of the victim's messages."""
    message = {"user_id": VICTIM, "role": "ROLE_USER", "ts": "2026-03-01T08:00:00Z", "content": SECRET_WORDS}
    key = guarded_web.keyring.key("ingest", name="loader")
    done = guarded_web.client.post("/v1/messages", json={"messages": [message]}, headers={"x-api-key": key})
    assert done.status_code == 200
    return str(done.json()["writeToken"])


@pytest.fixture(scope="module")
def filled(guarded_web: GuardedWeb, written: str) -> GuardedWeb:
    """A server with messages of a victim."""
    assert written
    return guarded_web


def bearer(text: str) -> dict[str, str]:
    return {"authorization": f"Bearer {text}"}


def ways(method: RpcMethod, request: ProtoMessage) -> Iterator[tuple[str, str, Any]]:
    """Return every way to send a request: by HTTP rule, with users in other places, and at its gRPC path."""
    verb, path, body = http_request(method, request)
    yield verb, path, body
    joined = "&" if "?" in path else "?"
    yield verb, f"{path}{joined}user_id={VICTIM}&userId=mallory", body
    yield verb, path.replace("/mallory/", f"/mallory/../{VICTIM}/"), body
    yield verb, path, {**(body or {}), "user_id": VICTIM, "userId": "mallory"}
    yield "POST", f"/{method.descriptor.containing_service.full_name}/{method.name}", {**(body or {}), "userId": VICTIM}


@pytest.mark.parametrize("name", METHODS)
def test_user_token_cannot_read_other_users_over_http(filled: GuardedWeb, name: str) -> None:
    own_token = bearer(token("mallory"))
    for user in (VICTIM, "mallory"):
        for verb, path, body in ways(METHODS[name], REQUESTS[name](user)):
            content = None if body is None else json.dumps(body).encode()
            headers = own_token | ({"content-type": "application/json"} if content is not None else {})
            answer = filled.client.request(verb, path, content=content, headers=headers)
            assert SECRET_WORDS not in answer.text
            if user == VICTIM and VICTIM in path and answer.status_code == 200:
                pytest.fail(f"{verb} {path} answered {answer.text}")


@pytest.mark.parametrize("name", METHODS)
def test_request_without_credentials_is_rejected(filled: GuardedWeb, name: str) -> None:
    for verb, path, body in ways(METHODS[name], REQUESTS[name](VICTIM)):
        answer = filled.client.request(verb, path, json=body) if body else filled.client.request(verb, path)
        assert answer.status_code in {400, UNKNOWN, 404, 405, 415}
        assert SECRET_WORDS not in answer.text
    answer = filled.client.get(f"/v1/users/{VICTIM}/messages")
    assert (answer.status_code, answer.headers["www-authenticate"]) == (UNKNOWN, "Bearer")
    assert reason(answer) == "CREDENTIALS_MISSING"


def test_credentials_are_checked_before_the_request_is_read(filled: GuardedWeb) -> None:
    answer = filled.client.post("/v1/messages", content=b"{", headers={"content-type": "application/json"})
    assert (answer.status_code, reason(answer)) == (UNKNOWN, "CREDENTIALS_MISSING")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([("x-user-id", VICTIM)], "OTHER_USER"),
        ([("x-user-id", "mallory"), ("x-user-id", VICTIM)], "OTHER_USER"),
        ([("x-user-id-bin", base64.b64encode(VICTIM.encode()).decode().rstrip("="))], "OTHER_USER"),
        ([("X-User-Id", VICTIM)], "OTHER_USER"),
        ([("authorization", f"Bearer {token(VICTIM)}")], "CREDENTIALS_INVALID"),
        ([("x-api-key", "nm_x_y")], "CREDENTIALS_INVALID"),
    ],
)
def test_user_headers_do_not_change_the_user_of_a_token(
    filled: GuardedWeb, headers: list[tuple[str, str]], expected: str
) -> None:
    own_token = [("authorization", f"Bearer {token('mallory')}"), *headers]
    for answer in (
        filled.client.get("/v1/users/mallory/messages", headers=own_token),
        filled.client.post("/v1/recall", json={"question": "what?"}, headers=own_token),
    ):
        assert (answer.status_code, reason(answer)) == (FORBIDDEN if expected == "OTHER_USER" else UNKNOWN, expected)


def test_service_acts_as_the_user_in_the_header(filled: GuardedWeb, written: str) -> None:
    key = filled.keyring.key("recall", "act-as", name="agent")
    recall = {"question": "What are the words?", "atLeast": written}

    def query(*users: str) -> httpx.Response:
        named = [("x-api-key", key), *(("x-user-id", user) for user in users)]
        return filled.client.post("/v1/recall", json=recall, headers=named)

    assert SECRET_WORDS in query(VICTIM).text
    assert SECRET_WORDS not in query("mallory").text
    for answer in (query(), query(VICTIM, "mallory"), query(VICTIM, VICTIM), query("")):
        assert (answer.status_code, reason(answer)) == (UNKNOWN, "USER_NOT_BOUND")


def test_key_without_the_scope_is_rejected(filled: GuardedWeb) -> None:
    key = filled.keyring.key("query", name="reader")
    answer = filled.client.delete(f"/v1/users/{VICTIM}", headers={"x-api-key": key})
    assert (answer.status_code, reason(answer)) == (FORBIDDEN, "SCOPE_MISSING")
    read = filled.client.get(f"/v1/users/{VICTIM}/messages", headers=bearer(key))
    assert SECRET_WORDS in read.text


def test_namespaces_are_isolated_over_http(filled: GuardedWeb) -> None:
    key = filled.keyring.key("query", "ingest", "admin", name="acme", namespace="acme")
    message = {"user_id": "lin", "role": "ROLE_USER", "ts": "2026-03-01T08:00:00Z", "content": "of acme"}
    filled.client.post("/v1/messages", json={"messages": [message]}, headers=bearer(key))
    listed = filled.client.get("/v1/users/lin/messages", headers=bearer(key)).json()
    assert [(item["userId"], item["content"]) for item in listed["items"]] == [("lin", "of acme")]
    assert filled.client.get("/v1/users", headers=bearer(key)).json()["users"] == [
        {"userId": "lin", "messageCount": "1"}
    ]
    for user in (VICTIM, quote("../victim", safe=""), quote("/victim", safe="")):
        assert "items" not in filled.client.get(f"/v1/users/{user}/messages", headers=bearer(key)).json()


def test_slash_in_an_id_does_not_change_the_path(web: Web) -> None:
    for user in ("a", "a/messages", "../users/a", "a%2Fb"):
        message = {"user_id": user, "role": "ROLE_USER", "ts": "2026-03-01T08:00:00Z", "content": f"of {user}"}
        web.client.post("/v1/messages", json={"messages": [message]})
        listed = web.client.get(f"/v1/users/{quote(user, safe='')}/messages").json()
        assert {item["content"] for item in listed["items"]} == {f"of {user}"}
