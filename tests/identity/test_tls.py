"""Tests for TLS and client certificates."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner
from cryptography import x509
from grpc_health.v1 import health_pb2, health_pb2_grpc
from identity.authority import LOCALHOST, Pair, authority, issued
from identity.calls import bearer, listing, refused, status, write
from identity.keyring import Keyring

from nomemory.cli.main import nomemory
from nomemory.client.errors import NoMemoryError
from nomemory.client.sync import Client
from nomemory.server.api.identity.credentials import IdentitySettingsError
from nomemory.server.api.identity.tls import TlsFiles, create_server_credentials, get_tls_files
from nomemory.server.runtime.healthcheck import is_serving
from nomemory.server.runtime.settings import Settings
from running_server import Server, settings_without_embedder, started

Settle = Callable[..., Settings]
Start = Callable[[Settings], AbstractContextManager[Server]]

CALLERS = [
    {"name": "chat", "certificate": "dns:chat.internal", "scopes": ["query"]},
    {"name": "loader", "certificate": "uri:spiffe://example/loader", "scopes": ["ingest"]},
    {"name": "ops", "certificate": "cn:ops", "scopes": ["admin"]},
]


@dataclass(frozen=True)
class Tls:
    """A certificate authority, and the files of a server certificate."""

    ca: Pair
    directory: Path

    @property
    def files(self) -> TlsFiles:
        return TlsFiles(self.directory / "server.pem", self.directory / "server.key", None)

    def serve_as(self, name: str) -> None:
        """Replace the certificate of the server."""
        issued(self.ca, name, *LOCALHOST).written_to(self.directory, "server")

    def settings(self) -> dict[str, object]:
        return {"tls_cert": self.files.certificate, "tls_key": self.files.key}

    def mutual(self) -> dict[str, object]:
        """Settings that assign a caller to each client certificate."""
        (self.directory / "ca.pem").write_bytes(self.ca.pem())
        (self.directory / "callers.json").write_text(json.dumps({"callers": CALLERS}))
        paths = {"tls_client_ca": self.directory / "ca.pem", "tls_identities": self.directory / "callers.json"}
        return self.settings() | paths

    @contextmanager
    def channel(self, target: str, client: Pair | None = None) -> Iterator[grpc.Channel]:
        client_pair = (client.key_pem(), client.pem()) if client else (None, None)
        with grpc.secure_channel(target, grpc.ssl_channel_credentials(self.ca.pem(), *client_pair)) as channel:
            yield channel


def create_tls(directory: Path) -> Tls:
    made = Tls(authority(), directory)
    made.serve_as("server")
    return made


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    return create_tls(tmp_path)


@dataclass(frozen=True)
class Running:
    """A running TLS server with its files and an API key of the scope query; the key is empty if it has no key file."""

    tls: Tls
    target: str
    settings: Settings
    key: str = ""


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with a certificate and API keys."""
    tls = create_tls(tmp_path_factory.mktemp("keyed"))
    keyring = Keyring(tls.directory / "keys.json")
    key = keyring.key("query")
    settings = settings_without_embedder(tls.directory / "data", **tls.settings(), api_keys=keyring.path)
    with started(settings) as server:
        yield Running(tls, server.target, settings, key)


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that assigns a caller to each client certificate."""
    tls = create_tls(tmp_path_factory.mktemp("mutual"))
    settings = settings_without_embedder(tls.directory / "data", **tls.mutual())
    with started(settings) as server:
        yield Running(tls, server.target, settings)


def unreachable(channel: grpc.Channel, user: str) -> bool:
    with pytest.raises(grpc.RpcError) as error:
        listing(channel, user, ())
    return error.value.code() is grpc.StatusCode.UNAVAILABLE


def test_tls_server_rejects_plaintext(keyed: Running, user: str) -> None:
    with keyed.tls.channel(keyed.target) as channel:
        assert listing(channel, user, bearer(keyed.key)).items == []
    with grpc.insecure_channel(keyed.target) as clear:
        assert unreachable(clear, user)
    with Tls(authority(), keyed.tls.directory).channel(keyed.target) as distrusting:
        assert unreachable(distrusting, user)


def test_server_certificate_is_reloaded(settle: Settle, start: Start, tls: Tls) -> None:
    with start(settle(**tls.settings())) as server:
        first = peer_name(server.target)
        tls.serve_as("renewed")
        assert (first, peer_name(server.target)) == ("server", "renewed")
        tls.files.certificate.write_text("nonsense")
        assert peer_name(server.target) == "renewed"


def peer_name(target: str) -> str:
    import ssl  # noqa: PLC0415 - to look at a handshake from outside gRPC

    host, _, port = target.rpartition(":")
    certificate = x509.load_pem_x509_certificate(ssl.get_server_certificate((host, int(port))).encode())
    return str(certificate.subject.rfc4514_string().removeprefix("CN="))


def test_client_certificate_authenticates_the_caller(mutual: Running, user: str) -> None:
    tls = mutual.tls
    chat = issued(tls.ca, "x", x509.DNSName("chat.internal"))
    loader = issued(tls.ca, "x", x509.UniformResourceIdentifier("spiffe://example/loader"))
    ops = issued(tls.ca, "ops")
    with tls.channel(mutual.target, loader) as channel:
        write(channel, user)
        assert refused(listing, channel, user).reason == "SCOPE_MISSING"
    with tls.channel(mutual.target, chat) as channel:
        assert len(listing(channel, user).items) == 1
    with tls.channel(mutual.target, ops) as channel:
        assert status(channel, user).log.messages == 1
        assert status(channel, "").log.messages >= 1


def test_unlisted_and_untrusted_certificates_are_rejected(mutual: Running, user: str) -> None:
    tls = mutual.tls
    strangers = {
        "another name": issued(tls.ca, "x", x509.DNSName("other.internal")),
        "the name as a common name": issued(tls.ca, "chat.internal"),
        "the name as an address of mail": issued(tls.ca, "x", x509.RFC822Name("chat.internal")),
        "a longer name": issued(tls.ca, "x", x509.DNSName("chat.internal.example")),
        "two callers at once": issued(tls.ca, "ops", x509.DNSName("chat.internal")),
        "no names": issued(tls.ca, "y"),
    }
    for stranger in strangers.values():
        with tls.channel(mutual.target, stranger) as channel:
            assert refused(listing, channel, user).reason == "CREDENTIALS_INVALID"
    with tls.channel(mutual.target) as channel:
        assert unreachable(channel, user)
    forged = issued(authority(), "x", x509.DNSName("chat.internal"))
    with tls.channel(mutual.target, forged) as channel:
        assert unreachable(channel, user)


def test_certificate_names_with_control_characters_are_rejected(mutual: Running, user: str) -> None:
    tls = mutual.tls
    tricks = {
        "a NUL in a name": issued(tls.ca, "x", x509.DNSName("chat.internal\0.evil")),
        "a NUL in a URI": issued(tls.ca, "x", x509.UniformResourceIdentifier("spiffe://example/loader\0/evil")),
        "a NUL in the common name": issued(tls.ca, "ops\0.evil"),
        "a line break": issued(tls.ca, "ops\n"),
        "a trick beside a good name": issued(tls.ca, "x", x509.DNSName("chat.internal"), x509.DNSName("a\0b")),
    }
    for trick in tricks.values():
        with tls.channel(mutual.target, trick) as channel:
            assert refused(listing, channel, user).reason == "CREDENTIALS_INVALID"


def test_certificate_together_with_a_key_is_rejected(settle: Settle, start: Start, tls: Tls, user: str) -> None:
    keyring = Keyring(tls.directory / "keys.json")
    key = keyring.key("query")
    chat = issued(tls.ca, "x", x509.DNSName("chat.internal"))
    with start(settle(**tls.mutual(), api_keys=keyring.path)) as server, tls.channel(server.target, chat) as channel:
        assert refused(listing, channel, user, bearer(key)).reason == "CREDENTIALS_INVALID"
        listing(channel, user)


def test_certificates_without_identities_only_permit_the_connection(
    settle: Settle, start: Start, tls: Tls, user: str
) -> None:
    keyring = Keyring(tls.directory / "keys.json")
    key = keyring.key("query")
    settings = settle(**tls.mutual() | {"tls_identities": None}, api_keys=keyring.path)
    with start(settings) as server, tls.channel(server.target, issued(tls.ca, "x")) as channel:
        assert refused(listing, channel, user).reason == "CREDENTIALS_MISSING"
        listing(channel, user, bearer(key))


def test_removed_certificate_caller_is_rejected_without_restart(
    settle: Settle, start: Start, tls: Tls, user: str
) -> None:
    chat = issued(tls.ca, "x", x509.DNSName("chat.internal"))
    with start(settle(**tls.mutual())) as server, tls.channel(server.target, chat) as channel:
        listing(channel, user)
        (tls.directory / "callers.json").write_text(json.dumps({"callers": CALLERS[1:]}))
        assert refused(listing, channel, user).reason == "CREDENTIALS_INVALID"
        (tls.directory / "callers.json").write_text("[]")
        assert "cannot be checked" in refused(listing, channel, user).text


def test_client_and_cli_send_certificates_and_keys(mutual: Running, tmp_path: Path, user: str) -> None:
    ca = tmp_path / "authority.pem"
    ca.write_bytes(mutual.tls.ca.pem())
    loader = issued(mutual.tls.ca, "x", x509.UniformResourceIdentifier("spiffe://example/loader"))
    certificate, key = loader.written_to(tmp_path, "loader")
    message = {"user_id": user, "role": "user", "ts": "2026-03-01T08:00:00Z", "content": "tea"}
    (tmp_path / "in.jsonl").write_text(json.dumps(message))
    connection = ["--target", mutual.target, "--tls-ca", str(ca), "--tls-client-cert", str(certificate)]
    command = ["import", str(tmp_path / "in.jsonl"), *connection, "--tls-client-key", str(key)]
    assert CliRunner().invoke(nomemory, command).exit_code == 0
    assert "must be used together" in CliRunner().invoke(nomemory, command[:-2]).output
    with Client(mutual.target, tls_ca=ca, tls_cert=certificate, tls_key=key) as client:
        client.delete(user, ["none"])
        with pytest.raises(NoMemoryError, match="scope `query`"):
            client.list_messages(user)
    with pytest.raises(ValueError, match="must be used together"):
        Client(mutual.target, tls_cert=certificate)


def test_health_check_needs_no_caller_identity(keyed: Running, user: str) -> None:
    with keyed.tls.channel(keyed.target) as channel:
        assert refused(listing, channel, user).reason == "CREDENTIALS_MISSING"
        reply = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
        assert reply.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize("kind", ["keyed", "mutual"])
def test_health_command_checks_a_tls_server(request: pytest.FixtureRequest, kind: str) -> None:
    server: Running = request.getfixturevalue(kind)
    assert is_serving(server.target, get_tls_files(server.settings))
    assert not is_serving(server.target)
    paths = server.tls.mutual() if kind == "mutual" else server.tls.settings()
    environment = {f"NOMEMORY_{name.upper()}": str(path) for name, path in paths.items()}
    command = [sys.executable, "-m", "nomemory.server.runtime.healthcheck", server.target]
    assert subprocess.run(command, env=environment, check=False).returncode == 0


def broken(tls: Tls) -> Sequence[tuple[dict[str, object], str]]:
    other_key = issued(tls.ca, "x").written_to(tls.directory, "other")[1]
    return [
        ({"tls_cert": tls.files.certificate}, "both NOMEMORY_TLS_CERT and NOMEMORY_TLS_KEY"),
        ({"tls_key": tls.files.key}, "both NOMEMORY_TLS_CERT and NOMEMORY_TLS_KEY"),
        ({"tls_client_ca": tls.files.certificate}, "both NOMEMORY_TLS_CERT and NOMEMORY_TLS_KEY"),
        (tls.settings() | {"tls_identities": tls.directory}, "NOMEMORY_TLS_CLIENT_CA"),
        (tls.settings() | {"tls_key": other_key}, "cannot load the TLS files"),
        (tls.settings() | {"tls_key": Path("/nowhere")}, "No such file"),
        (tls.settings() | {"tls_client_ca": tls.files.key}, "cannot load the TLS files"),
    ]


@pytest.mark.parametrize("case", range(7))
def test_unusable_tls_files_prevent_the_start(settle: Settle, tls: Tls, case: int) -> None:
    changed, sentence = broken(tls)[case]
    with pytest.raises(IdentitySettingsError, match=sentence):
        credentials_of(settle(**changed))


def credentials_of(settings: Settings) -> grpc.ServerCredentials:
    files = get_tls_files(settings)
    assert files is not None
    return create_server_credentials(files)
