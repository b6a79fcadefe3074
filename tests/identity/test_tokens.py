"""Tests for the validation of tokens: signature, audience and time."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import grpc
import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from identity.calls import bearer, listing, refused
from identity.issuer import AUDIENCE, ISSUER, SECRET, claims, token

from nomemory.server.api.identity.caller import Scope
from nomemory.server.api.identity.key_sets import SharedSecret
from nomemory.server.api.identity.tokens import TokenAuthenticator, TokenRules
from nomemory.server.faults import Fault, Reason

if TYPE_CHECKING:
    from identity.authenticated_server import Guarded

RULES = TokenRules(frozenset({"HS256"}), ISSUER, AUDIENCE, "sub", frozenset(), 30.0)


def part(content: object) -> str:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(header: object, payload: object, secret: bytes = SECRET.encode()) -> str:
    """Sign arbitrary claims."""
    body = f"{part(header)}.{part(payload)}"
    return f"{body}.{part(hmac.new(secret, body.encode(), hashlib.sha256).digest())}"


def plain(user: str, **changed: Any) -> dict[str, Any]:  # noqa: ANN401 - a claim may be anything
    return claims(user, **{"exp": 4_000_000_000} | changed)


def forged(user: str) -> dict[str, str]:
    good = token(user)
    header, payload, signature = good.split(".")
    return {
        "no algorithm": f"{part({'alg': 'none', 'typ': 'JWT'})}.{payload}.",
        "no algorithm, with a signature": f"{part({'alg': 'none'})}.{payload}.{signature}",
        "None": f"{part({'alg': 'None'})}.{payload}.",
        "no alg": f"{part({'typ': 'JWT'})}.{payload}.{signature}",
        "another secret": jwt.encode(claims(user), "x" * 40, "HS256"),
        "an empty secret": signed({"alg": "HS256"}, plain(user), b""),
        "another payload": f"{header}.{part(plain('somebody-else'))}.{signature}",
        "another header": f"{part({'alg': 'HS256', 'kid': '../../dev/null'})}.{payload}.{signature}",
        "no signature": f"{header}.{payload}.",
        "a shorter signature": good[:-2],
        "two parts": f"{header}.{payload}",
        "four parts": f"{good}.{signature}",
        "a critical extension": signed({"alg": "HS256", "crit": ["x"], "x": 1}, plain(user)),
        "a key of its own": signed({"alg": "HS256", "jwk": {"kty": "oct", "k": part(b"x")}}, plain(user), b"x"),
        "not JSON": signed({"alg": "HS256"}, b"{"),
        "a list": signed({"alg": "HS256"}, [1]),
        "JSON without end": signed({"alg": "HS256"}, b"[" * 3000),
        "a header without end": f"{part(b'[' * 3000)}.{payload}.{signature}",
    }


def unfit(user: str) -> dict[str, tuple[dict[str, Any], str]]:
    ago, later = datetime.now(UTC) - timedelta(minutes=2), datetime.now(UTC) + timedelta(minutes=2)
    return {
        "another audience": ({"aud": "somebody-else"}, "for another audience"),
        "an audience like ours": ({"aud": f"{AUDIENCE}-staging"}, "for another audience"),
        "other audiences": ({"aud": ["a", "b"]}, "for another audience"),
        "no audience": ({"aud": None}, "lacks the claim `aud`"),
        "another issuer": ({"iss": f"{ISSUER}.evil"}, "from another issuer"),
        "no issuer": ({"iss": None}, "lacks the claim `iss`"),
        "expired": ({"exp": ago}, "has expired"),
        "no expiry": ({"exp": None}, "lacks the claim `exp`"),
        "an expiry that is no number": ({"exp": "never"}, "is not valid"),
        "an endless expiry": ({"exp": float("inf")}, "is not valid"),
        "not yet": ({"nbf": later}, "not valid yet"),
        "no user": ({"sub": None}, "lacks the claim `sub`"),
        "an empty user": ({"sub": ""}, "is not a valid user id"),
        "a blank user": ({"sub": "  "}, "is not a valid user id"),
        "a user with a control character": ({"sub": f"{user}\0"}, "is not a valid user id"),
        "a user that is too long": ({"sub": "u" * 129}, "is not a valid user id"),
    }


@pytest.mark.parametrize("case", forged("u"))
def test_forged_token_is_rejected(guarded: Guarded, user: str, case: str) -> None:
    refusal = refused(listing, guarded.channel, user, bearer(forged(user)[case]))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAUTHENTICATED, "CREDENTIALS_INVALID")


@pytest.mark.parametrize("case", unfit("u"))
def test_token_with_invalid_claims_is_rejected(guarded: Guarded, user: str, case: str) -> None:
    changed, sentence = unfit(user)[case]
    refusal = refused(listing, guarded.channel, user, bearer(token(user, **changed)))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAUTHENTICATED, "CREDENTIALS_INVALID")
    assert sentence in refusal.text


def test_claim_errors_are_reported_only_for_valid_signatures(guarded: Guarded, user: str) -> None:
    forgery = jwt.encode(claims(user, exp=datetime.now(UTC) - timedelta(days=1)), "x" * 40, "HS256")
    assert refused(listing, guarded.channel, user, bearer(forgery)).text == "the token is not valid"


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"aud": ["another", AUDIENCE]},
        {"exp": timedelta(seconds=-5)},
        {"nbf": timedelta(seconds=5)},
        {"exp": 4_000_000_000},
    ],
)
def test_valid_token_is_accepted(guarded: Guarded, user: str, changed: dict[str, Any]) -> None:
    # Relative to the run time of the test, which may be minutes after its collection.
    moments = {
        name: datetime.now(UTC) + value if isinstance(value, timedelta) else value for name, value in changed.items()
    }
    listing(guarded.channel, user, bearer(token(user, **moments)))


def test_forgery_helper_without_a_fault_creates_valid_tokens(guarded: Guarded, user: str) -> None:
    listing(guarded.channel, user, bearer(signed({"alg": "HS256"}, plain(user))))


@given(st.text(max_size=200) | st.from_regex(r"[\w-]{0,80}\.[\w-]{0,80}\.[\w-]{0,60}"))
async def test_arbitrary_text_is_rejected_as_token(text: str) -> None:
    with pytest.raises(Fault) as error:
        await TokenAuthenticator(SharedSecret(SECRET.encode()), RULES).authenticate(text)
    assert error.value.reason == Reason.ERROR_REASON_CREDENTIALS_INVALID


@given(
    st.dictionaries(
        st.sampled_from(["iss", "aud", "sub", "exp", "nbf", "iat", "scope", "scp", "jti", "act"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=8),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
            max_leaves=4,
        ),
    )
)
async def test_arbitrary_claims_grant_at_most_reads_of_one_user(odd: dict[str, Any]) -> None:
    claims = plain("ann") | odd
    with contextlib.suppress(Fault):  # any other error would be a server error
        caller = await TokenAuthenticator(SharedSecret(SECRET.encode()), RULES).authenticate(
            signed({"alg": "HS256"}, claims)
        )
        assert caller.user_id == claims["sub"]
        assert caller.scopes <= {Scope.QUERY, Scope.RECALL}


async def test_unlisted_algorithm_is_rejected_even_with_the_right_secret() -> None:
    secret = SECRET * 2
    tokens = TokenAuthenticator(SharedSecret(secret.encode()), RULES)
    assert (await tokens.authenticate(jwt.encode(claims("ann"), secret, "HS256"))).user_id == "ann"
    with pytest.raises(Fault, match="not valid"):
        await tokens.authenticate(jwt.encode(claims("ann"), secret, "HS512"))


async def test_user_claim_is_configurable() -> None:
    rules = TokenRules(frozenset({"HS256"}), ISSUER, AUDIENCE, "email", frozenset({Scope.QUERY}), 0.0)
    tokens = TokenAuthenticator(SharedSecret(SECRET.encode()), rules)
    assert (await tokens.authenticate(token("1234", email="ann@example"))).user_id == "ann@example"
    with pytest.raises(Fault, match="email"):
        await tokens.authenticate(token("1234"))


async def test_default_scopes_apply_to_tokens_without_scopes() -> None:
    rules = TokenRules(frozenset({"HS256"}), ISSUER, AUDIENCE, "sub", frozenset({Scope.QUERY, Scope.INGEST}), 0.0)
    tokens = TokenAuthenticator(SharedSecret(SECRET.encode()), rules)
    assert (await tokens.authenticate(token("ann", scope=None))).scopes == {Scope.QUERY}
    assert (await tokens.authenticate(token("ann", scope=""))).scopes == frozenset()
