"""Tests for the authorization of scrapes: a scrape token or a key with the scope admin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from identity.issuer import TRUSTED, token
from identity.keyring import Keyring
from metrics.scraping import HTTP, scraped
from pydantic import ValidationError
from web.http_server import settings_of

from nomemory.server.runtime.listen_address import ListenAddressError
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.endpoints import parse_listen_addresses
from running_server import Server, started

TOKEN = "a-token-for-scrapes-alone"  # noqa: S105 - it guards nothing


@dataclass(frozen=True)
class Guarded:
    server: Server
    keyring: Keyring

    @property
    def ports(self) -> tuple[str, str]:
        """The URLs that serve metrics."""
        return self.server.http, self.server.metrics


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A server that checks credentials, with metrics over HTTP and on a separate port."""
    keyring = Keyring(tmp_path_factory.mktemp("keys") / "keys.json")
    keyring.key("query", name="first")
    settings = settings_of(
        tmp_path_factory.mktemp("guarded"),
        api_keys=keyring.path,
        **TRUSTED,
        metrics_listen="127.0.0.1:0",
        metrics_token=TOKEN,
    )
    with started(settings) as server:
        yield Guarded(server, keyring)


def status(http: str, credential: str | None = None, **headers: str) -> int:
    """Return the HTTP status of a scrape."""
    credentials = {"authorization": f"Bearer {credential}"} if credential else {}
    return HTTP.get(f"{http}/metrics", headers=credentials | headers).status_code


def test_scrapes_without_credentials_are_rejected_on_every_port(guarded: Guarded) -> None:
    for http in guarded.ports:
        refused = HTTP.get(f"{http}/metrics")
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert "nomemory_" not in refused.text
        assert status(http, "a-wrong-token-of-some-length") == 401
        assert status(http, TOKEN[:-1]) == 401


def test_scrape_token_permits_only_scrapes(guarded: Guarded) -> None:
    for http in guarded.ports:
        assert scraped(http, bearer=TOKEN).value("nomemory_log_readable") == 1
    assert (
        HTTP.get(f"{guarded.server.http}/v1/index_status", headers={"authorization": f"Bearer {TOKEN}"}).status_code
        == 401
    )


def test_metrics_require_the_admin_scope(guarded: Guarded) -> None:
    for http in guarded.ports:
        assert status(http, guarded.keyring.key("admin")) == 200
        assert status(http, guarded.keyring.key("query", "ingest", "recall", "act-as")) == 403
        assert status(http, guarded.keyring.key("admin", namespace="shop")) == 403
        assert status(http, token("lin")) == 403
        assert status(http, **{"x-api-key": guarded.keyring.key("admin")}) == 200


def test_rejected_credentials_are_counted(guarded: Guarded) -> None:
    before = scraped(guarded.server.http, bearer=TOKEN)
    HTTP.get(f"{guarded.server.http}/v1/index_status", headers={"authorization": "Bearer nm_wrong"})
    HTTP.get(f"{guarded.server.http}/metrics")
    after = scraped(guarded.server.http, bearer=TOKEN)
    called = {"method": "GetIndexStatus", "transport": "http", "reason": "CREDENTIALS_INVALID"}
    for name, labels in (
        ("nomemory_call_errors_total", called),
        ("nomemory_http_requests_rejected_total", {"reason": "CREDENTIALS_MISSING"}),
    ):
        assert after.value(name, **labels) - before.value(name, **labels) == 1


def test_scrape_token_protects_a_server_without_other_credentials(own_settings: Settings) -> None:
    with started(own_settings.copy_with_changes(metrics_listen="127.0.0.1:0", metrics_token="x" * 16)) as server:
        assert status(server.metrics) == 401
        assert status(server.metrics, "y" * 16) == 401
        assert status(server.metrics, "x" * 16) == 200


def test_public_metrics_port_requires_credentials(own_settings: Settings) -> None:
    with pytest.raises(ListenAddressError, match="refusing to listen on"):
        parse_listen_addresses(own_settings.copy_with_changes(metrics_listen="0.0.0.0:9464"))


@pytest.mark.parametrize("weak", ["", "short"])
def test_empty_or_short_scrape_token_is_rejected(tmp_path: Path, weak: str) -> None:
    with pytest.raises(ValidationError):
        Settings.from_environment(data=tmp_path, metrics_token=weak)
