"""Tests that invalid HTTP requests are rejected as over gRPC, with every violation."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from web.raw_http import answered, request

from nomemory.server.api.http.json_mapping import MAX_ARRAY_NUMBERS, MAX_VALUES
from nomemory.server.api.parsing import MAX_READ_BYTES

if TYPE_CHECKING:
    import httpx
    from web.http_server import Web

JSON = {"content-type": "application/json"}
NO_ROLE = "must be one of user (ROLE_USER), assistant (ROLE_ASSISTANT), system (ROLE_SYSTEM), tool (ROLE_TOOL)"
INT32, FLOAT = "must be an integer of 32 bits", "must be a number of 32 bits"
GOOD = {"user_id": "u", "role": "ROLE_USER", "ts": "2026-03-01T08:00:00Z", "content": "x"}


def violations(answer: httpx.Response) -> dict[str, str]:
    details = {item["@type"].rpartition(".")[2]: item for item in answer.json()["error"]["details"]}
    return {detail["field"]: detail["description"] for detail in details["BadRequest"]["fieldViolations"]}


def reason(answer: httpx.Response) -> str:
    (info,) = (item for item in answer.json()["error"]["details"] if item["@type"].endswith("ErrorInfo"))
    assert info["domain"] == "nomemory"
    assert info["metadata"]["request_id"] == answer.headers["x-request-id"]
    return str(info["reason"]).removeprefix("ERROR_REASON_")


def test_all_violations_of_a_body_are_reported(web: Web) -> None:
    bad = {
        "messages": [
            {**GOOD, "role": "ROLE_POET", "mood": "good"},
            {**GOOD, "ts": "yesterday", "metadata": {"a": 1}, "embedding": [1, "x"]},
            7,
        ],
        "replace": "yes",
    }
    answer = web.client.post("/v1/messages", json=bad)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_ARGUMENT")
    assert reason(answer) == "INVALID_FIELD"
    assert violations(answer) == {
        "messages[0].role": NO_ROLE,
        "messages[0].mood": "unknown field of ChatMessage",
        "messages[1].ts": "must be a time such as 2026-03-01T08:00:00Z",
        "messages[1].metadata": "must be an object with string values",
        "messages[1].embedding": "must be an array; each value must be a number of 32 bits",
        "messages[2]": "must be an object",
        "replace": "must be true or false",
    }


def test_all_violations_of_a_query_string_are_reported(web: Web) -> None:
    query = "page_size=1.5&pageSize=2&filter.role=7x&filter.time_range.since=now&filter=x&user_id=v&cursor[a]=b&a.b=c"
    answer = web.client.get(f"/v1/users/u/messages?{query}")
    assert violations(answer) == {
        "pageSize": "must not be repeated",
        "page_size": "must be an integer of 32 bits",
        "filter.role": NO_ROLE,
        "filter.time_range.since": "must be a time such as 2026-03-01T08:00:00Z",
        "filter": "is a message: set its fields with separate parameters",
        "user_id": "must be equal to the value in the path",
        "cursor[a]": "must not have a key in brackets: the field is not a map",
        "a.b": "unknown field of ListMessagesRequest",
    }


def test_query_string_with_many_unknown_names_is_rejected(web: Web) -> None:
    answer = web.client.get(f"/v1/users/u/messages?page_size=x&{'&'.join(f'a{n}' for n in range(3000))}")
    assert violations(answer)["the request"] == "has more than 1000 violations; the others are not listed"


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("topK", 2**31, INT32),
        ("topK", -(2**31) - 1, INT32),
        ("topK", 1.5, INT32),
        ("topK", True, INT32),
        ("minScore", 1e39, FLOAT),
        ("minScore", [], FLOAT),
        ("userId", 5, "must be a string"),
        ("returnFields", ["ts"], "must be field names, separated by commas"),
    ],
)
def test_values_of_the_wrong_type_are_rejected(web: Web, field: str, value: object, expected: str) -> None:
    body = {"user_id": "u", "query_embedding": {"values": [1, 0, 0, 0]}, field: value}
    if field == "userId":
        del body["user_id"]
    answer = web.client.post("/v1/messages/semantic_search", content=json.dumps(body), headers=JSON)
    assert list(violations(answer).values()) == [expected], answer.text


@pytest.mark.parametrize("value", [1, 1.0, "1"])
def test_integers_are_accepted_in_all_json_forms(web: Web, value: object) -> None:
    body = {"userId": "u", "queryEmbedding": {"values": ["1", 0, 0, "0.5"]}, "top_k": value, "minScore": None}
    assert web.client.post("/v1/messages/semantic_search", json=body).status_code == 200


def test_two_fields_of_a_oneof_are_rejected(web: Web) -> None:
    body = {"userId": "u", "queryText": "x", "queryEmbedding": {"values": [1, 0, 0, 0]}}
    answer = web.client.post("/v1/messages/semantic_search", json=body)
    assert violations(answer) == {"query_embedding": "only one field of `query` may be set"}


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'{"user_id": "\xff"}',
        b'{"user_id": "\\ud800"}',
        b'{"user_id": NaN}',
        b"[" * 100_000,
        b'{"filter":' * 3000 + b"{}" + b"}" * 3000,
        b"\xef\xbb\xbf{}",
        b"{} {}",
    ],
)
def test_invalid_json_is_rejected(web: Web, body: bytes) -> None:
    answer = web.client.post("/v1/messages/lexical_search", content=body, headers=JSON)
    assert (answer.status_code, reason(answer)) == (400, "MALFORMED_REQUEST")
    assert "user_id" not in answer.json()["error"]["message"]


def test_body_with_too_many_values_is_rejected_before_parsing(web: Web) -> None:
    for value, limit in ((b"{}", MAX_VALUES), (b"0", MAX_ARRAY_NUMBERS)):
        body = b"[" + (value + b",") * (limit + 1) + value + b"]"
        answer = web.client.post("/v1/messages", content=body, headers=JSON)
        assert reason(answer) == "MALFORMED_REQUEST"


@pytest.mark.parametrize(
    "body",
    [
        {f"k{n}": 0 for n in range(50_000)},
        {"messages": [{"ts": 1}] * 20_000},
        {"messages": [0] * 200_000},
    ],
)
def test_at_most_1000_violations_are_reported(web: Web, body: dict[str, Any]) -> None:
    answer = web.client.post("/v1/messages", json=body)
    assert violations(answer)["the request"] == "has more than 1000 violations; the others are not listed"
    (info,) = (item for item in answer.json()["error"]["details"] if item["@type"].endswith("ErrorInfo"))
    assert info["metadata"]["violations"] == "1001"


@pytest.mark.parametrize(
    "path", ["/v1/users/%ff/messages", "/v1/users/u/messages?cursor=%ff", "/v1/users/%00/messages"]
)
def test_invalid_utf8_and_control_characters_in_a_path_are_rejected(web: Web, path: str) -> None:
    assert answered(web.server.http, request(f"GET {path}")).startswith(b"HTTP/1.1 400 ")


def test_body_above_the_size_limit_is_rejected(web: Web) -> None:
    limit = web.server.settings.limits.max_request_bytes
    answer = web.client.post("/v1/messages", content=b" " * (limit + 1), headers=JSON)
    assert (answer.status_code, reason(answer)) == (413, "REQUEST_TOO_LARGE")


def test_read_request_has_a_lower_size_limit(web: Web) -> None:
    answer = web.client.post("/v1/messages/lexical_search", content=b" " * (MAX_READ_BYTES + 1), headers=JSON)
    assert (answer.status_code, reason(answer)) == (413, "REQUEST_TOO_LARGE")


def test_chunked_body_above_the_size_limit_is_rejected(web: Web) -> None:
    limit = web.server.settings.limits.max_request_bytes
    chunk = b"100000\r\n" + b" " * 0x10_0000 + b"\r\n"
    head = request("POST /v1/messages", "content-type: application/json", "transfer-encoding: chunked")
    reply = answered(web.server.http, head, *[chunk] * (limit // 0x10_0000 + 2), b"0\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None])
def test_body_with_a_cors_safelisted_media_type_is_rejected(web: Web, media_type: str | None) -> None:
    headers = {"content-type": media_type} if media_type else {}
    answer = web.client.post("/v1/messages", content=b"{}", headers=headers)
    assert (answer.status_code, reason(answer)) == (415, "MALFORMED_REQUEST")


def test_compressed_body_is_rejected(web: Web) -> None:
    answer = web.client.post("/v1/messages", content=b"{}", headers=JSON | {"content-encoding": "gzip"})
    assert answer.status_code == 415


def test_body_of_a_get_request_is_rejected(web: Web) -> None:
    answer = web.client.request("GET", "/v1/users/u/messages", json={"user_id": "v"})
    assert (answer.status_code, reason(answer)) == (400, "MALFORMED_REQUEST")


def test_unknown_paths_and_methods_are_rejected(web: Web) -> None:
    nowhere = web.client.get("/v2/users/u/messages")
    assert (nowhere.status_code, nowhere.json()["error"]["code"], reason(nowhere)) == (
        404,
        "NOT_FOUND",
        "PATH_NOT_FOUND",
    )
    wrong = web.client.put("/v1/users/u/messages")
    assert (wrong.status_code, set(wrong.headers["allow"].split(", "))) == (405, {"GET", "HEAD"})
    assert web.client.post("/nomemory.v1.QueryService/ListMessages", json={}).status_code == 404
    assert web.client.post("/grpc.health.v1.Health/Check", json={}).status_code == 404
    assert web.client.get("/v1/users/u/../../openapi.json").status_code in {200, 404}


@pytest.mark.parametrize("value", ["soon", "-1", "1.5", "1" * 11])
def test_timeout_header_must_be_integer_milliseconds(web: Web, value: str) -> None:
    answer = web.client.get("/v1/users/u/messages", headers={"x-timeout-ms": value})
    assert (answer.status_code, reason(answer)) == (400, "MALFORMED_REQUEST")


def test_call_ends_at_its_timeout(web: Web) -> None:
    head = ("content-type: application/json", "content-length: 100", "x-timeout-ms: 100")
    reply = answered(web.server.http, request("POST /v1/messages", *head, body=b"{"))
    assert reply.startswith(b"HTTP/1.1 504 ")
    assert b'"DEADLINE_EXCEEDED"' in reply


def test_client_request_id_is_used(web: Web) -> None:
    assert web.client.get("/v1/index_status", headers={"x-request-id": "mine-1"}).headers["x-request-id"] == "mine-1"
    unusable = [(b"x-request-id", "é".encode())]
    other = web.client.get("/v1/index_status", headers=unusable).headers["x-request-id"]
    assert re.fullmatch(r"[0-9a-f]{26}", other)


def test_conflict_and_missing_message_have_http_statuses(web: Web, user: str) -> None:
    message: dict[str, Any] = {**GOOD, "user_id": user, "message_id": "m"}
    web.client.post("/v1/messages", json={"messages": [message]})
    conflict = web.client.post("/v1/messages", json={"messages": [message | {"content": "other"}]})
    assert (conflict.status_code, reason(conflict)) == (409, "MESSAGE_CONFLICT")
    missing = web.client.get(f"/v1/users/{user}/messages/nope/neighbors")
    assert (missing.status_code, reason(missing)) == (404, "MESSAGE_NOT_FOUND")
    disabled = web.client.post("/v1/messages/semantic_search", json={"userId": user, "queryText": "x"})
    assert (disabled.status_code, reason(disabled)) == (400, "EMBEDDER_DISABLED")


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET \xff HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /v1/index_status HTTP/1.1\r\nhost: localhost\r\nx: a\0b\r\n\r\n",
        request("POST /v1/messages", "content-length: 2", "transfer-encoding: chunked", body=b"0\r\n\r\n"),
        request("POST /v1/messages", "content-length: 2", "content-length: 3", body=b"{} "),
        request("POST /v1/messages", "content-length: -1"),
        request("GET /v1/index_status", "host: other"),
        request("GET /v1/index_status", "x-user-id: \xff"),
        request("GET /v1/index_status", "x-user-id-bin: ***"),
        request("GET /v1/index_status", f"x: {'a' * 1_000_000}"),
        request("GET /v1/index_status", *["a: b"] * 200_000),
        request("GET /" + "a" * 1_000_000),
        b"\r\n" * 20_000,
    ],
)
def test_malformed_request_is_rejected(web: Web, raw: bytes) -> None:
    reply = answered(web.server.http, raw)
    assert reply.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 403 ")), reply[:100]
    assert b"Traceback" not in reply
    assert web.client.get("/healthz").json() == {"status": "SERVING"}


def test_content_length_with_leading_zeros_is_accepted(web: Web) -> None:
    head = ("content-type: application/json", f"content-length: {'0' * 5_000}2", "connection: close")
    assert answered(web.server.http, request("POST /v1/messages", *head, body=b"{}")).startswith(b"HTTP/1.1 400 ")
    head = ("content-type: application/json", f"content-length: {'0' * 5_000}{'9' * 30}", "connection: close")
    assert not answered(web.server.http, request("POST /v1/messages", *head, body=b"{}")).startswith(b"HTTP/1.1 500 ")


def test_trailers_are_ignored(web: Web, user: str) -> None:
    body = b"2\r\n{}\r\n0\r\nx-user-id: %s\r\n\r\n" % user.encode()
    head = request("POST /v1/recall", "content-type: application/json", "transfer-encoding: chunked")
    assert b"ERROR_REASON_USER_NOT_BOUND" in answered(web.server.http, head + body)


@pytest.mark.parametrize("expected", [("expect: \xf6",), ("expect: 100-continue", "expect: 100-continue")])
def test_unneeded_body_is_accepted_with_any_expect_header(web: Web, expected: tuple[str, ...]) -> None:
    reply = answered(web.server.http, request("PUT /v1/messages", "content-length: 2", *expected, body=b"{}"))
    assert reply.startswith(b"HTTP/1.1 405 ")
    assert b"ERROR_REASON_PATH_NOT_FOUND" in reply
