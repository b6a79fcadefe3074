"""Tests for `nomemory mcp` as a process: stdio and streamable HTTP."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner
from identity.authority import LOCALHOST, authority, issued
from identity.calls import bearer
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from model_context.guarded import NOMEMORY, Guarded, command
from model_context.tool_results import READS, WRITES

from nomemory.cli.main import nomemory
from nomemory.v1 import query_service_pb2 as q
from running_server import Server

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


@asynccontextmanager
async def over_http(url: str, **headers: str) -> AsyncIterator[Client]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        httpx2.AsyncClient(headers=named, timeout=30) as http_client,
        Client(streamable_http_client(url, http_client=http_client)) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def url(guarded: Guarded) -> Iterator[str]:
    """The address of an endpoint without the tool `forget`."""
    environment = {
        "NOMEMORY_TARGET": guarded.server.target,
        "NOMEMORY_MCP_FORGET": "false",
        "PATH": os.environ["PATH"],
    }
    with command(environment, "--http", "127.0.0.1:0") as address:
        yield address


async def listed(client: Client) -> list[str]:
    result = await client.call_tool("messages_list", {"page_size": 1})
    return [item["message_id"] for item in result.structured_content["messages"]]


def over_stdio(guarded: Guarded, **settings: str) -> StdioServerParameters:
    """Return the parameters of a stdio server for Ann."""
    environment = {**guarded.environment(guarded.service), **settings}
    return StdioServerParameters(command=NOMEMORY, args=["mcp", "--user", "ann"], env=environment)


async def test_stdio_server_is_bound_to_one_user(guarded: Guarded) -> None:
    async with Client(over_stdio(guarded), mode="auto") as client:
        assert await listed(client) == ["a9"]
        assert [tool.name for tool in (await client.list_tools()).tools] == [*READS, *WRITES]


async def test_stdio_server_with_disabled_forget_serves_legacy_clients_without_it(guarded: Guarded) -> None:
    async with Client(over_stdio(guarded, NOMEMORY_MCP_FORGET="false"), mode="legacy") as client:
        assert await listed(client) == ["a9"]
        assert [tool.name for tool in (await client.list_tools()).tools] == [*READS, "remember"]
        with pytest.raises(MCPError, match="unknown tool"):
            await client.call_tool("forget", {"message_ids": ["a0"]})
        everything = await client.call_tool("messages_list", {})
        assert len(everything.structured_content["messages"]) == 10


async def test_forget_is_not_offered_over_http_if_disabled(guarded: Guarded, url: str) -> None:
    async with over_http(url, authorization=f"Bearer {guarded.service}", x_user_id="ann") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [*READS, "remember"]


async def test_http_requests_are_bound_to_their_authenticated_user(guarded: Guarded, url: str) -> None:
    async with over_http(url, authorization=f"Bearer {guarded.reader}", x_user_id="ann") as client:
        assert await listed(client) == ["a9"]
    async with over_http(url, authorization=f"Bearer {guarded.token('bob')}") as client:
        assert await listed(client) == ["b0"]


def post(url: str, headers: Mapping[str, str], body: bytes = json.dumps(PING).encode()) -> httpx2.Response:
    return httpx2.post(url, content=body, headers={**HEADERS, **headers}, timeout=30)


def bearing(credential: str, user: str | None = None, **more: str) -> dict[str, str]:
    return {"authorization": f"Bearer {credential}", **({"x-user-id": user} if user else {}), **more}


def test_call_without_credentials_is_rejected(guarded: Guarded, url: str) -> None:
    without, wrong = post(url, {}), post(url, bearing("nm_not_a_key", "ann"))
    assert (without.status_code, wrong.status_code) == (401, 401)
    assert without.headers["www-authenticate"] == "Bearer"
    assert post(url, bearing(guarded.reader)).status_code == 400  # no user is specified


def test_endpoint_without_oauth_serves_no_metadata(url: str) -> None:
    assert httpx2.get(url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")).status_code == 404


def test_user_token_cannot_read_another_user(guarded: Guarded, url: str) -> None:
    call = {**PING, "method": "tools/call", "params": {"name": "messages_list", "arguments": {}}}
    reply = post(url, bearing(guarded.token("bob"), "ann"), json.dumps(call).encode())
    assert "tomatoes" not in reply.text


def test_user_header_is_parsed_as_over_grpc_and_must_be_unique(guarded: Guarded, url: str) -> None:
    call = {**PING, "method": "tools/call", "params": {"name": "remember", "arguments": {"content": "你好"}}}
    body = json.dumps(call).encode()
    headers = [(name.encode(), value.encode()) for name, value in {**bearing(guarded.service), **HEADERS}.items()]
    named = httpx2.post(url, content=body, headers=[*headers, (b"x-user-id", "张é".encode())], timeout=30)
    twice = httpx2.post(url, content=body, headers=[*headers, (b"x-user-id", b"a"), (b"x-user-id", b"b")], timeout=30)
    wrong = httpx2.post(url, content=body, headers=[*headers[1:], (b"authorization", b"Bearer \xe9")], timeout=30)
    assert (named.status_code, twice.status_code, wrong.status_code) == (200, 400, 400)
    listed = guarded.server.query.ListMessages(q.ListMessagesRequest(user_id="张é"), metadata=bearer(guarded.reader))
    assert [item.content for item in listed.items] == ["你好"]


def test_browser_page_of_another_origin_is_rejected(guarded: Guarded, url: str) -> None:
    token = guarded.token("bob")
    for host in (url.split("/")[2], "localhost", "127.0.0.1", "[::1]:80"):
        assert post(url, bearing(token, host=host)).status_code == 200
    assert post(url, bearing(token, origin="https://evil.example")).status_code == 403
    assert post(url, bearing(token, host="evil.example")).status_code == 421


def test_oversized_request_is_rejected(guarded: Guarded, url: str) -> None:
    assert post(url, bearing(guarded.token("bob")), b" " * 1_100_000).status_code == 413


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--http", "0.0.0.0:0"], "--http-cert"),
        (["--http", "127.0.0.1:0", "--user", "ann"], "each request"),
        (["--http", "nonsense"], "HOST:PORT"),
        (["--http-cert", __file__], "--http"),
    ],
)
def test_invalid_usage_is_reported(arguments: list[str], complaint: str) -> None:
    ended = CliRunner().invoke(nomemory, ["mcp", *arguments])
    assert ended.exit_code == 2
    assert complaint in ended.stderr


def test_mcp_over_http_rejects_a_public_address_for_an_unauthenticated_server(
    vector_server: Server, tmp_path: Path
) -> None:
    certificate, key = issued(authority(), "here", *LOCALHOST).written_to(tmp_path, "here")
    options = ["--http", "0.0.0.0:0", "--http-cert", str(certificate), "--http-key", str(key)]
    ended = CliRunner().invoke(nomemory, ["mcp", *options], env={"NOMEMORY_TARGET": vector_server.target})
    assert ended.exit_code == 1
    assert "accepts calls without credentials" in ended.stderr
