"""OAuth of `nomemory mcp --http`: its metadata, its challenges, and the tokens of an authorization server."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from click.testing import CliRunner
from identity.calls import bearer
from identity.keyring import Keyring
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from model_context.authorization_server import AuthorizationServer, authorization_server
from model_context.guarded import command
from model_context.tool_results import SEARCHES, ids
from pydantic import AnyUrl

from chat_messages import new_message
from nomemory.cli.main import nomemory
from nomemory.v1 import ingest_service_pb2 as i
from running_server import Server, settings_without_embedder, started

HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
REDIRECT = "http://127.0.0.1:1/callback"


@dataclass(frozen=True)
class Deployment:
    """An authorization server, a server that trusts it, and an MCP endpoint that advertises it."""

    issuer: AuthorizationServer
    server: Server
    url: str
    service: str

    @property
    def metadata_url(self) -> str:
        """The URL of the metadata of the MCP endpoint."""
        return self.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")

    def token(self, user_id: str = "ann", **changed: Any) -> str:  # noqa: ANN401 - a claim may be any JSON value
        """Return a token for the MCP endpoint."""
        return self.issuer.token(user_id, self.url, **changed)


def unused_port() -> int:
    """Return a free port. The resource URL contains the port, so it must be known before the endpoint starts."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def environment(target: str, resource_url: str, issuer: str, **more: str) -> dict[str, str]:
    """Return the environment of an MCP endpoint with OAuth."""
    return {
        "PATH": os.environ["PATH"],
        "NOMEMORY_TARGET": target,
        "NOMEMORY_MCP_RESOURCE_URL": resource_url,
        "NOMEMORY_MCP_AUTHORIZATION_SERVERS": issuer,
        **more,
    }


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A message of Ann and one of Bob, behind OAuth; the authorization server signs tokens for Ann."""
    directory = tmp_path_factory.mktemp("oauth")
    ring = Keyring(directory / "keys.json")
    service = ring.key("ingest", "query", "recall", "act-as", name="service")
    port = unused_port()
    url = f"http://127.0.0.1:{port}/mcp"
    with authorization_server("ann") as issuer:
        settings = settings_without_embedder(
            directory / "data",
            api_keys=ring.path,
            jwt_jwks=f"{issuer.issuer}/jwks",
            jwt_issuer=issuer.issuer,
            jwt_audience=url,
            jwt_leeway_s=0.0,
        )
        with started(settings) as server:
            messages = [
                new_message("ann", "a1", "I am allergic to peanuts", ts=1000),
                new_message("bob", "b1", "canary", ts=1000),
            ]
            server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages), metadata=bearer(service))
            variables = environment(server.target, url, issuer.issuer, NOMEMORY_MCP_SCOPES="recall query")
            with command(variables, "--http", f"127.0.0.1:{port}") as address:
                assert address == url
                yield Deployment(issuer, server, url, service)


def post(url: str, token: str = "", **headers: str) -> httpx2.Response:
    """List messages with a token."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "messages_list", "arguments": {}}}
    authorization = {"authorization": f"Bearer {token}"} if token else {}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.post(url, content=json.dumps(body), headers={**HEADERS, **authorization, **named}, timeout=30)


def challenge(response: httpx2.Response) -> Mapping[str, str]:
    """Return the parameters of the `WWW-Authenticate` header."""
    scheme, _, parameters = response.headers["www-authenticate"].partition(" ")
    assert scheme == "Bearer"
    return dict(re.findall(r'(\w+)="([^"]*)"', parameters))


@dataclass
class Storage:
    """The stored authorization of an MCP client."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None
    redirects: list[str] = field(default_factory=list)

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info

    async def open_browser(self, url: str) -> None:
        """Follow the link that a user opens in a browser."""
        response = httpx2.get(url, follow_redirects=False)
        self.redirects.append(response.headers["location"])

    async def read_callback(self) -> AuthorizationCodeResult:
        parameters = parse_qs(urlsplit(self.redirects[-1]).query)
        return AuthorizationCodeResult(code=parameters["code"][0], state=parameters["state"][0])


async def test_client_that_knows_only_the_url_connects_with_oauth(deployment: Deployment) -> None:
    storage = Storage()
    metadata = OAuthClientMetadata(client_name="assistant", redirect_uris=[AnyUrl(REDIRECT)])
    oauth = OAuthClientProvider(deployment.url, metadata, storage, storage.open_browser, storage.read_callback)
    async with (
        httpx2.AsyncClient(auth=oauth, timeout=30) as http_client,
        Client(streamable_http_client(deployment.url, http_client=http_client)) as client,
    ):
        tools = [tool.name for tool in (await client.list_tools()).tools]
        listed = await client.call_tool("messages_list", {})
        recalled = await client.call_tool("recall", {"query": "What am I allergic to?"})
    assert ids(listed) == ["a1"]
    assert "peanuts" in str(recalled.content)
    assert tools == ["recall", "build_context", *SEARCHES]
    (request,) = deployment.issuer.requested
    assert request.resource == deployment.url
    assert sorted(request.scopes or []) == ["query", "recall"]


def test_metadata_requires_no_credentials(deployment: Deployment) -> None:
    response = httpx2.get(deployment.metadata_url)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {
        "resource": deployment.url,
        "authorization_servers": [deployment.issuer.issuer],
        "scopes_supported": ["recall", "query"],
        "bearer_methods_supported": ["header"],
        "resource_name": "NoMemory",
    }
    assert httpx2.get(deployment.url.replace("/mcp", "/.well-known/openid-configuration")).status_code == 404


def test_call_without_token_is_referred_to_the_metadata(deployment: Deployment) -> None:
    response = post(deployment.url)
    assert response.status_code == 401
    assert challenge(response) == {"resource_metadata": deployment.metadata_url, "scope": "recall query"}
    assert response.json()["reason"] == "ERROR_REASON_CREDENTIALS_MISSING"


@pytest.mark.parametrize(
    ("changed", "description"),
    [
        ({"exp": datetime.now(UTC) - timedelta(minutes=1)}, "the token has expired"),
        ({"aud": "https://other.example/mcp"}, "the token is for another audience"),
        ({"aud": None}, "the token lacks the claim `aud`"),
        ({"iss": "https://other.example"}, "the token is from another issuer"),
        ({"nbf": datetime(2100, 1, 1, tzinfo=UTC)}, "the token is not valid yet"),
    ],
)
def test_token_that_the_server_rejects_is_unauthorized(
    deployment: Deployment, changed: dict[str, Any], description: str
) -> None:
    response = post(deployment.url, deployment.token(**changed))
    assert response.status_code == 401
    assert challenge(response) == {
        "error": "invalid_token",
        "error_description": description,
        "resource_metadata": deployment.metadata_url,
        "scope": "recall query",
    }
    assert "a1" not in response.text


def test_token_of_another_signer_is_unauthorized(deployment: Deployment) -> None:
    with authorization_server("ann") as other:
        forged = other.token("ann", deployment.url, iss=deployment.issuer.issuer)
    for token in (forged, "not-a-token", "nm_not_a_key"):
        response = post(deployment.url, token)
        assert (response.status_code, challenge(response)["error"]) == (401, "invalid_token")


@pytest.mark.parametrize("scope", ["", "admin ingest", None])
def test_token_without_a_usable_scope_is_forbidden(deployment: Deployment, scope: str | None) -> None:
    response = post(deployment.url, deployment.token(scope=scope))
    assert response.status_code == 403
    assert challenge(response) == {
        "error": "insufficient_scope",
        "error_description": "the credentials permit no tool: they need the scope query or recall",
        "resource_metadata": deployment.metadata_url,
        "scope": "recall query",
    }


def test_token_reads_only_its_own_user(deployment: Deployment) -> None:
    assert "allergic" in post(deployment.url, deployment.token("ann")).text
    assert "canary" in post(deployment.url, deployment.token("bob")).text
    other = post(deployment.url, deployment.token("ann"), x_user_id="bob")
    assert "PERMISSION_DENIED" in other.text
    assert "canary" not in other.text


def test_api_keys_remain_valid_with_oauth(deployment: Deployment) -> None:
    assert "canary" in post(deployment.url, deployment.service, x_user_id="bob").text


def test_endpoint_behind_a_proxy_accepts_the_public_host(deployment: Deployment) -> None:
    public = "https://memory.example/mcp"
    variables = environment(deployment.server.target, public, "https://login.example https://other.example/tenant")
    with command(variables, "--http", "127.0.0.1:0") as address:
        response = post(address, host="memory.example")
        accepted = post(address, deployment.token(), host="memory.example")
        rejected = post(address, deployment.token(), host="evil.example")
        path = "/.well-known/oauth-protected-resource/mcp"
        metadata = httpx2.get(address.replace("/mcp", path), headers={"host": "memory.example"}).json()
    assert challenge(response)["resource_metadata"] == f"https://memory.example{path}"
    assert (accepted.status_code, rejected.status_code) == (200, 421)
    assert metadata["resource"] == public
    assert metadata["authorization_servers"] == ["https://login.example", "https://other.example/tenant"]
    assert metadata["scopes_supported"] == ["query", "recall"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"NOMEMORY_MCP_AUTHORIZATION_SERVERS": ""}, "must be set together"),
        ({"NOMEMORY_MCP_RESOURCE_URL": ""}, "must be set together"),
        ({"NOMEMORY_MCP_RESOURCE_URL": "http://memory.example/mcp"}, "must be an https URL"),
        ({"NOMEMORY_MCP_RESOURCE_URL": "https://memory.example/mcp#x"}, "without query and fragment"),
        ({"NOMEMORY_MCP_AUTHORIZATION_SERVERS": "https://a.example login"}, "AUTHORIZATION_SERVERS: login"),
    ],
)
def test_invalid_oauth_setting_is_a_usage_error(changed: dict[str, str], message: str) -> None:
    variables = environment("127.0.0.1:1", "https://memory.example/mcp", "https://login.example") | changed
    ended = CliRunner().invoke(nomemory, ["mcp", "--http", "127.0.0.1:0"], env=variables)
    assert ended.exit_code == 2
    assert message in ended.output


def test_oauth_requires_a_server_that_checks_credentials(vector_server: Server) -> None:
    variables = environment(vector_server.target, "https://memory.example/mcp", "https://login.example")
    ended = CliRunner().invoke(nomemory, ["mcp", "--http", "127.0.0.1:0"], env=variables)
    assert ended.exit_code == 1
    assert "accepts calls without credentials" in ended.stderr
