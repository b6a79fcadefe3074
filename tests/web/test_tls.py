"""Tests for HTTP over TLS: exposure rules, client certificates and renewal."""

from __future__ import annotations

import json
import ssl
import time
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from identity.authority import LOCALHOST, Pair, authority, issued
from identity.keyring import Keyring
from web.http_server import settings_of
from web.test_bad_requests import reason

from nomemory.server.runtime.listen_address import ListenAddressError
from nomemory.server.runtime.wiring.endpoints import parse_listen_addresses
from running_server import started

PATIENCE_S = 20


def served_as(directory: Path, by: Pair, name: str) -> dict[str, object]:
    certificate, key = issued(by, name, *LOCALHOST).written_to(directory, "server")
    return {"tls_cert": certificate, "tls_key": key}


def trusting(by: Pair, directory: Path, client_pair: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=by.pem().decode())
    if client_pair:
        context.load_cert_chain(*client_pair.written_to(directory, "client"))
    return context


def peer_name(http: str, context: ssl.SSLContext) -> str:
    with httpx.Client(verify=context) as client, client.stream("GET", f"{http}/healthz") as answer:
        tls = answer.extensions["network_stream"].get_extra_info("ssl_object")
        return str(tls.getpeercert()["subject"][0][0][1])


def test_client_certificate_authenticates_over_http(tmp_path: Path) -> None:
    ca = authority()
    (tmp_path / "ca.pem").write_bytes(ca.pem())
    callers = {"callers": [{"name": "chat", "certificate": "dns:chat.internal", "scopes": ["query"]}]}
    (tmp_path / "callers.json").write_text(json.dumps(callers))
    mutual = {"tls_client_ca": tmp_path / "ca.pem", "tls_identities": tmp_path / "callers.json"}
    with started(settings_of(tmp_path, **served_as(tmp_path, ca, "server"), **mutual)) as server:
        http = server.http.replace("http://", "https://")
        chat = trusting(ca, tmp_path, issued(ca, "x", x509.DNSName("chat.internal")))
        assert httpx.get(f"{http}/v1/users/u/messages", verify=chat).json() == {}
        refused = httpx.delete(f"{http}/v1/users/u", verify=chat)
        assert (refused.status_code, reason(refused)) == (403, "SCOPE_MISSING")
        other = httpx.get(f"{http}/v1/users/u/messages", verify=trusting(ca, tmp_path, issued(ca, "other")))
        assert (other.status_code, reason(other)) == (401, "CREDENTIALS_INVALID")
        for nobody in (trusting(ca, tmp_path), trusting(ca, tmp_path, issued(authority("evil"), "chat.internal"))):
            with pytest.raises(httpx.HTTPError):
                httpx.get(f"{http}/v1/users/u/messages", verify=nobody)


def test_renewed_certificate_is_used_without_restart(tmp_path: Path) -> None:
    ca = authority()
    with started(settings_of(tmp_path, **served_as(tmp_path, ca, "first"))) as server:
        http, context = server.http.replace("http://", "https://"), trusting(ca, tmp_path)
        assert peer_name(http, context) == "first"
        served_as(tmp_path, ca, "second")
        give_up = time.monotonic() + PATIENCE_S
        while peer_name(http, context) != "second":
            assert time.monotonic() < give_up
            time.sleep(0.1)


def test_http_address_follows_the_exposure_rules(tmp_path: Path) -> None:
    with pytest.raises(ListenAddressError, match="refusing to listen"):
        parse_listen_addresses(settings_of(tmp_path, http_listen="0.0.0.0:1"))
    keyring = Keyring(tmp_path / "keys.json")
    keyring.key("query")
    with pytest.raises(ListenAddressError, match="without TLS"):
        parse_listen_addresses(settings_of(tmp_path, http_listen="[::]:1", api_keys=keyring.path))
    with pytest.raises(ListenAddressError, match="HOST:PORT"):
        parse_listen_addresses(settings_of(tmp_path, http_listen="7701"))
    assert parse_listen_addresses(settings_of(tmp_path, http_listen="")).http is None


def test_port_in_use_is_reported(tmp_path: Path) -> None:
    with (
        started(settings_of(tmp_path)) as server,
        pytest.raises(ListenAddressError, match="the port is free"),
        started(settings_of(tmp_path / "other", http_listen=server.http.removeprefix("http://"))),
    ):
        pass
