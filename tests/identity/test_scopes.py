"""Tests for the scopes of API keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
import pytest
from identity.calls import EVERY, RECALLS, bearer, listing, recall, refused, status, write
from identity.issuer import token

from chat_messages import ids
from nomemory.server.api.identity.caller import Scope

if TYPE_CHECKING:
    from identity.authenticated_server import Guarded

SCOPES = [scope.value for scope in Scope]


@pytest.mark.parametrize("name", EVERY)
def test_call_without_credentials_is_rejected(guarded: Guarded, user: str, name: str) -> None:
    refusal = refused(EVERY[name].send, guarded.channel, user)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAUTHENTICATED, "CREDENTIALS_MISSING")


@pytest.mark.parametrize("name", EVERY)
def test_method_is_rejected_without_its_scope(guarded: Guarded, user: str, name: str) -> None:
    others = [scope for scope in SCOPES if scope not in EVERY[name].scopes]
    key = guarded.keyring.key(*others)
    refusal = refused(EVERY[name].send, guarded.channel, user, (*bearer(key), ("x-user-id", user)))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.PERMISSION_DENIED, "SCOPE_MISSING")


@pytest.mark.parametrize(("name", "scope"), [(name, scope) for name in EVERY for scope in EVERY[name].scopes])
def test_scope_permits_its_methods(guarded: Guarded, user: str, name: str, scope: str) -> None:
    write(guarded.channel, user, bearer(guarded.keyring.key("ingest")))
    recalls = ("act-as",) if name in RECALLS else ()
    key = guarded.keyring.key(scope, *recalls)
    EVERY[name].send(guarded.channel, user, (*bearer(key), ("x-user-id", user)) if recalls else bearer(key))


def test_service_reads_any_user(guarded: Guarded, user: str) -> None:
    key = guarded.keyring.key("ingest", "query")
    for each in (user, f"{user}-other"):
        write(guarded.channel, each, bearer(key))
        assert ids(listing(guarded.channel, each, bearer(key)).items) == ["m1"]
    assert status(guarded.channel, "", bearer(key)).log.users >= 2


def test_service_recall_requires_act_as(guarded: Guarded, user: str) -> None:
    key = guarded.keyring.key("query", "recall", "admin", "ingest")
    refusal = refused(recall, guarded.channel, user, (*bearer(key), ("x-user-id", user)))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.PERMISSION_DENIED, "SCOPE_MISSING")
    assert "act-as" in refusal.text


def test_user_token_never_writes(guarded: Guarded, user: str) -> None:
    greedy = token(user, scope=" ".join(SCOPES))
    for name in ("WriteMessages", "ImportMessages", "DeleteMessages", "EraseUser"):
        refusal = refused(EVERY[name].send, guarded.channel, user, bearer(greedy))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.PERMISSION_DENIED, "SCOPE_MISSING")
