"""Tests that public addresses require credentials and TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from identity.authority import LOCALHOST, authority, issued
from identity.calls import bearer, listing
from identity.keyring import Keyring

from nomemory.server.runtime.app import running_server
from nomemory.server.runtime.exposure import ServerProtection, check_exposure
from nomemory.server.runtime.listen_address import ListenAddress, ListenAddressError, parse_listen_address
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import StartupError
from running_server import Server

if TYPE_CHECKING:
    from identity.authenticated_server import Guarded

Settle = Callable[..., Settings]
Start = Callable[[Settings], AbstractContextManager[Server]]

LOOPBACK = ["127.0.0.1", "127.1.2.3", "::1", "localhost"]
OPEN = ["0.0.0.0", "::", "192.0.2.1", "2001:db8::1", "memory.example", "::ffff:127.0.0.1", "127.0.0.1.example"]  # noqa: S104 - to be refused
NOTHING = ServerProtection(credentials=False, tls=False, plaintext_accepted=False)


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_address_needs_no_credentials(host: str) -> None:
    check_exposure(ListenAddress(host, 7700), NOTHING)


def test_unix_socket_address_needs_no_credentials() -> None:
    address = parse_listen_address("unix:/run/nomemory/socket")
    assert str(address) == "unix:/run/nomemory/socket"
    check_exposure(address, NOTHING)


@pytest.mark.parametrize("host", OPEN)
def test_public_address_requires_credentials_and_tls(host: str) -> None:
    for protection in (NOTHING, ServerProtection(credentials=False, tls=True, plaintext_accepted=True)):
        with pytest.raises(ListenAddressError, match="without authentication") as error:
            check_exposure(ListenAddress(host, 7700), protection)
        for way_out in ("127.0.0.1:7700", "NOMEMORY_API_KEYS", "NOMEMORY_JWT_JWKS", "NOMEMORY_TLS_CLIENT_CA"):
            assert way_out in str(error.value)


@pytest.mark.parametrize("host", OPEN)
def test_plaintext_credentials_require_an_explicit_setting(host: str) -> None:
    address = ListenAddress(host, 7700)
    with pytest.raises(ListenAddressError, match="without TLS") as error:
        check_exposure(address, ServerProtection(credentials=True, tls=False, plaintext_accepted=False))
    for way_out in ("NOMEMORY_TLS_CERT", "NOMEMORY_INSECURE_PLAINTEXT"):
        assert way_out in str(error.value)
    check_exposure(address, ServerProtection(credentials=True, tls=True, plaintext_accepted=False))
    check_exposure(address, ServerProtection(credentials=True, tls=False, plaintext_accepted=True))


@pytest.mark.parametrize(
    "text", ["", ":", "unix:", "7700", "host:", ":7700", "host:x", "host:65536", "host:-1", "[]:1"]
)
def test_address_requires_host_and_port(text: str) -> None:
    with pytest.raises(ListenAddressError, match="HOST:PORT"):
        parse_listen_address(text)


def test_rejected_start_is_explained_and_creates_no_files(settle: Settle) -> None:
    settings = settle(listen="0.0.0.0:0")
    with pytest.raises(ListenAddressError, match=r"^refusing to listen on 0\.0\.0\.0:0 ") as error:
        asyncio.run(_enter(settings))
    assert isinstance(error.value, StartupError), "the command `nomemory serve` prints its text"
    assert not settings.server.data.exists()


async def _enter(settings: Settings) -> None:
    async with running_server(settings):
        pass


def test_server_with_credentials_and_tls_listens_publicly(
    settle: Settle, start: Start, tmp_path: Path, user: str
) -> None:
    keyring, ca = Keyring(tmp_path / "keys.json"), authority()
    key = keyring.key("query")
    certificate, private = issued(ca, "server", *LOCALHOST).written_to(tmp_path, "server")
    settings = settle(listen="0.0.0.0:0", api_keys=keyring.path, tls_cert=certificate, tls_key=private)
    with start(settings) as server:
        target = f"localhost:{server.target.rpartition(':')[2]}"
        with grpc.secure_channel(target, grpc.ssl_channel_credentials(ca.pem())) as channel:
            listing(channel, user, bearer(key))


def described(channel: grpc.Channel) -> bool:
    """Return whether the server supports reflection."""
    ask = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo
    try:
        replies = list(ask(iter([reflection_pb2.ServerReflectionRequest(list_services="")]), timeout=10))
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            return False
        raise
    return bool(replies[0].list_services_response.service)


def test_reflection_is_public_unless_disabled(guarded: Guarded, settle: Settle, start: Start) -> None:
    assert described(guarded.channel)
    keyring = Keyring(guarded.keyring.path)
    with (
        start(settle(api_keys=keyring.path, reflection=False)) as server,
        grpc.insecure_channel(server.target) as channel,
    ):
        assert not described(channel)


def test_health_needs_no_credentials(guarded: Guarded) -> None:
    for name in ("", "nomemory.v1.QueryService", "nomemory.v1.IngestService"):
        reply = health_pb2_grpc.HealthStub(guarded.channel).Check(health_pb2.HealthCheckRequest(service=name))
        assert reply.status == health_pb2.HealthCheckResponse.SERVING
