"""Tests that the server log contains caller names but no credentials, and user ids only in the audit log."""

from __future__ import annotations

from pathlib import Path

from identity.calls import bearer, listing, recall, refused, write
from identity.issuer import AUDIENCE, ISSUER, SECRET, token
from identity.keyring import Keyring
from identity.logged_server import calls_in, logging_to


def test_log_contains_callers_but_no_secrets(tmp_path: Path, user: str) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    key, users_token = keyring.key("recall", "act-as", name="chat"), token(user)
    tenant = keyring.key("query", "ingest", "recall", "act-as", name="tenant", namespace="zephyrquill")
    settings = {"api_keys": str(keyring.path), "jwt_secret": SECRET, "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}
    with logging_to(tmp_path / "log", log_level="debug", audit_log="false", **settings) as channel:
        recall(channel, user, (*bearer(key), ("x-user-id", user)))
        recall(channel, user, bearer(users_token))
        refused(listing, channel, f"{user}-other", bearer(users_token))
        refused(listing, channel, user, bearer(key))
        refused(listing, channel, user, bearer(key[:-3]))
        refused(listing, channel, user, bearer(users_token[:-3]))
        refused(listing, channel, user)
        recall(channel, user, (*bearer(tenant), ("x-user-id", user)))
        listing(channel, user, bearer(tenant))
        refused(listing, channel, f"{user}\n", bearer(tenant))
        assert "zephyrquill" not in refused(listing, channel, f"zephyrquill/{'y' * 128}", bearer(tenant)).text
    log = (tmp_path / "log").read_text()
    assert calls_in(log) == [
        ("chat", "act-as", "OK"),
        ("user-token", "token", "OK"),
        ("user-token", None, "PERMISSION_DENIED"),
        ("chat", None, "PERMISSION_DENIED"),
        (None, None, "UNAUTHENTICATED"),
        (None, None, "UNAUTHENTICATED"),
        (None, None, "UNAUTHENTICATED"),
        ("tenant", "act-as", "OK"),
        ("tenant", None, "OK"),
        ("tenant", None, "INVALID_ARGUMENT"),
        ("tenant", None, "INVALID_ARGUMENT"),
    ]
    assert "zephyrquill" not in log, "only audit entries contain the namespace"
    for secret in (user, SECRET, *key.split("_", 2)[1:], *users_token.split(".")[1:]):
        assert secret[:-3] not in log


def test_log_of_a_local_server_without_audit_log_has_unverified_identities_but_no_user_ids(
    tmp_path: Path, user: str
) -> None:
    with logging_to(tmp_path / "log", audit_log="false", embedding_dimension="4") as channel:
        recall(channel, user, (("x-user-id", user),))
        write(channel, user)
    log = (tmp_path / "log").read_text()
    assert calls_in(log) == [("local", "x-user-id", "OK"), ("local", None, "OK")]
    assert '"audit"' not in log
    assert user not in log
