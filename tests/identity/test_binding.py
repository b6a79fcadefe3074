"""Tests that a recall is bound to exactly one user by its credentials, not by the request."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from identity.calls import Metadata, bearer, recall, refused

from nomemory.server.api.call import CallContext
from nomemory.server.api.identity.caller import LOCAL, Caller, Scope
from nomemory.server.api.identity.user_binding import BoundUser, bind_user, is_valid_user_id
from nomemory.server.faults import Fault, Reason

if TYPE_CHECKING:
    from identity.authenticated_server import Guarded

    from running_server import Server

SERVICE = Caller("service", frozenset({Scope.RECALL, Scope.ACT_AS}))
USER = Caller("user-token", frozenset({Scope.RECALL}), "ann")

NOT_ONE_USER: dict[str, Metadata] = {
    "none": (),
    "empty": (("x-user-id", ""),),
    "blank": (("x-user-id", "   "),),
    "two": (("x-user-id", "ann"), ("x-user-id", "bob")),
    "the same twice": (("x-user-id", "ann"), ("x-user-id", "ann")),
    "as text and as bytes": (("x-user-id", "ann"), ("x-user-id-bin", b"ann")),
    "one of them empty": (("x-user-id", ""), ("x-user-id", "ann")),
    "a control character": (("x-user-id-bin", b"ann\x00"),),
    "a line break": (("x-user-id-bin", b"ann\n"),),
    "not UTF-8": (("x-user-id-bin", b"\xff\xfe"),),
    "no bytes": (("x-user-id-bin", b""),),
    "too long": (("x-user-id", "a" * 129),),
}


@pytest.mark.parametrize("case", NOT_ONE_USER)
def test_service_recall_requires_exactly_one_user(guarded: Guarded, user: str, case: str) -> None:
    key = guarded.keyring.key("recall", "act-as")
    refusal = refused(recall, guarded.channel, user, (*bearer(key), *NOT_ONE_USER[case]))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAUTHENTICATED, "USER_NOT_BOUND")


@pytest.mark.parametrize("case", NOT_ONE_USER)
def test_local_recall_requires_exactly_one_user(vector_server: Server, user: str, case: str) -> None:
    with grpc.insecure_channel(vector_server.target) as channel:
        assert refused(recall, channel, user, NOT_ONE_USER[case]).reason == "USER_NOT_BOUND"


def test_bound_user_has_its_identity_source() -> None:
    named: Metadata = (("x-user-id", "ann"),)
    assert bind_user(SERVICE, named) == BoundUser("ann", "act-as")
    assert bind_user(LOCAL, named) == BoundUser("ann", "x-user-id")
    assert bind_user(USER, ()) == bind_user(USER, named) == BoundUser("ann", "token")


@given(st.text(max_size=140))
def test_user_id_is_bound_unchanged_or_rejected(name: str) -> None:
    raw = name.encode()
    metadata = (("x-user-id-bin", raw),)
    if is_valid_user_id(name):
        assert bind_user(SERVICE, metadata).user_id == name
        assert 0 < len(name.strip()) <= len(name) <= 128
    else:
        with pytest.raises(Fault) as error:
            bind_user(SERVICE, metadata)
        assert error.value.reason == Reason.ERROR_REASON_USER_NOT_BOUND


@given(st.lists(st.tuples(st.sampled_from(["x-user-id", "x-other"]), st.text(max_size=5)), max_size=4))
def test_user_token_binds_its_own_user(metadata: list[tuple[str, str]]) -> None:
    others = [value for name, value in metadata if name == "x-user-id" and value != "ann"]
    if not others:
        assert bind_user(USER, metadata).user_id == "ann"
    else:
        with pytest.raises(Fault) as error:
            bind_user(USER, metadata)
        assert error.value.reason == Reason.ERROR_REASON_OTHER_USER


def test_unbound_call_has_no_user() -> None:
    with pytest.raises(Fault) as error:
        CallContext("id", time.monotonic()).require_bound_user()
    assert error.value.reason == Reason.ERROR_REASON_USER_NOT_BOUND
