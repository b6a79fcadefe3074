"""Tests for tokens signed with a JSON Web Key Set from a file or URL, and for key rotation."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from identity.issuer import AUDIENCE, ISSUER, SECRET, claims
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from nomemory.server.api.identity.caller import Caller
from nomemory.server.api.identity.credentials import IdentitySettingsError
from nomemory.server.api.identity.factory import make_authenticator
from nomemory.server.api.identity.key_set_url import RemoteKeySet, fetch_document
from nomemory.server.api.identity.key_sets import KeySetFile, KeySource, parse_key_set
from nomemory.server.api.identity.secure_url import is_secure_url
from nomemory.server.api.identity.tokens import TokenAuthenticator, TokenRules
from nomemory.server.faults import Fault, Reason
from running_server import settings_without_embedder

ALGORITHMS = frozenset({"RS256", "ES256"})
RULES = TokenRules(ALGORITHMS, ISSUER, AUDIENCE, "sub", frozenset(), 30.0)

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


@cache
def private_key(name: str) -> PrivateKey:
    """Create a private key once per name; the prefix `ec` selects an elliptic-curve key."""
    if name.startswith("ec"):
        return ec.generate_private_key(ec.SECP256R1())
    return rsa.generate_private_key(65537, 2048)


def public_jwk(name: str, **more: object) -> dict[str, Any]:
    """Return the public key as a member of a key set."""
    key = private_key(name)
    if isinstance(key, rsa.RSAPrivateKey):
        member = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    else:
        member = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {**member, "kid": name, **more}


def key_set(*members: Mapping[str, object]) -> bytes:
    return json.dumps({"keys": members}).encode()


def token_of(name: str, algorithm: str = "RS256", headers: dict[str, Any] | None = None, **changed: object) -> str:
    key = private_key(name)
    return jwt.encode(claims("ann", **changed), key, algorithm, headers={"kid": name} if headers is None else headers)


async def good(keys: KeySource, token: str) -> Caller:
    return await TokenAuthenticator(keys, RULES).authenticate(token)


async def refusal(keys: KeySource, token: str) -> str:
    with pytest.raises(Fault) as error:
        await TokenAuthenticator(keys, RULES).authenticate(token)
    assert error.value.reason == Reason.ERROR_REASON_CREDENTIALS_INVALID
    return error.value.message


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jwks.json"
    path.write_bytes(key_set(public_jwk("rsa-1"), public_jwk("ec-1", alg="ES256", use="sig")))
    return path


async def test_token_signed_with_a_listed_key_is_accepted(file: Path) -> None:
    keys = KeySetFile(file, ALGORITHMS)
    assert (await good(keys, token_of("rsa-1"))).user_id == "ann"
    assert (await good(keys, token_of("ec-1", "ES256"))).user_id == "ann"


def signed_with_the_public_key(name: str) -> Iterator[str]:
    """Sign tokens with the public key as shared secret, in each possible encoding."""
    public = private_key(name).public_key()
    for encoding in (serialization.Encoding.PEM, serialization.Encoding.DER):
        secret = public.public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)
        yield _with_hmac(name, secret)
    yield _with_hmac(name, json.dumps(public_jwk(name)).encode())


def _with_hmac(name: str, secret: bytes) -> str:
    header, payload, _ = token_of(name).split(".")
    header = jwt.utils.base64url_encode(json.dumps({"alg": "HS256", "kid": name}).encode()).decode()
    signature = hmac.new(secret, f"{header}.{payload}".encode(), hashlib.sha256).digest()
    return f"{header}.{payload}.{jwt.utils.base64url_encode(signature).decode()}"


async def test_public_key_is_rejected_as_shared_secret(file: Path) -> None:
    keys = KeySetFile(file, ALGORITHMS)
    for forgery in signed_with_the_public_key("rsa-1"):
        assert await refusal(keys, forgery) == "the token is not valid"


async def test_unlisted_keys_and_algorithms_are_rejected(file: Path) -> None:
    keys = KeySetFile(file, ALGORITHMS)
    assert "unknown key" in await refusal(keys, token_of("rsa-2"))
    assert "unknown key" in await refusal(keys, token_of("rsa-1", headers={}))
    assert await refusal(keys, token_of("rsa-2", headers={"kid": "rsa-1"})) == "the token is not valid"
    assert await refusal(keys, token_of("rsa-1", "RS512")) == "the token is not valid"
    assert await refusal(keys, token_of("rsa-1", headers={"kid": "ec-1"})) == "the token is not valid"
    assert await refusal(keys, jwt.encode(claims("ann"), SECRET, "HS256", headers={"kid": "rsa-1"}))
    assert await refusal(keys, jwt.encode(claims("ann"), "", "none", headers={"kid": "rsa-1"}))
    for odd in (7, None, ["rsa-1"], {"kid": "rsa-1"}):
        header, payload, signature = token_of("rsa-1").split(".")
        header = jwt.utils.base64url_encode(json.dumps({"alg": "RS256", "kid": odd}).encode()).decode()
        assert await refusal(keys, f"{header}.{payload}.{signature}")


async def test_keys_in_the_token_header_are_ignored(file: Path) -> None:
    keys = KeySetFile(file, ALGORITHMS)
    for header in ({"jwk": public_jwk("rsa-2")}, {"jku": "http://127.0.0.1:1/keys"}, {"x5u": "http://127.0.0.1:1/"}):
        assert await refusal(keys, token_of("rsa-2", headers={"kid": "rsa-1", **header})) == "the token is not valid"


async def test_key_removed_from_the_file_is_rejected(file: Path) -> None:
    keys = KeySetFile(file, ALGORITHMS)
    await good(keys, token_of("rsa-1"))
    file.write_bytes(key_set(public_jwk("rsa-2")))  # noqa: ASYNC240 - a small file of the test's own
    await good(keys, token_of("rsa-2"))
    assert "unknown key" in await refusal(keys, token_of("rsa-1"))
    file.unlink()  # noqa: ASYNC240 - as above
    assert "cannot be checked" in await refusal(keys, token_of("rsa-2"))


def test_key_set_ignores_keys_for_other_uses_and_algorithms() -> None:
    members = [
        public_jwk("rsa-1"),
        public_jwk("rsa-2", use="enc"),
        public_jwk("rsa-3", alg="RS512"),
        public_jwk("rsa-4", kid=None),
        public_jwk("rsa-5", alg=["RS256"]),
        {"kty": "oct", "kid": "secret", "k": "c2VjcmV0", "alg": "HS256"},
        {"kty": "oct", "kid": "posing", "k": "c2VjcmV0", "alg": "RS256"},
        {"kty": "what", "kid": "x"},
        {},
    ]
    assert set(parse_key_set(key_set(*members), ALGORITHMS)) == {"rsa-1"}


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys": {}}',
        b'{"keys": []}',
        b'{"keys": ["x", 1, null]}',
        key_set(public_jwk("rsa-1"), public_jwk("rsa-2", kid="rsa-1")),
    ],
)
def test_key_set_without_usable_keys_is_rejected(document: bytes, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_key_set(document, ALGORITHMS)
    (tmp_path / "jwks.json").write_bytes(document)
    with pytest.raises(IdentitySettingsError):
        KeySetFile(tmp_path / "jwks.json", ALGORITHMS)


@dataclass
class Issuer:
    """A simulated key set URL, and a clock controlled by the test."""

    document: bytes
    now: float = 0.0
    fetched: int = 0
    down: bool = False

    def fetch(self) -> bytes:
        self.fetched += 1
        if self.down:
            raise OSError("no route")
        return self.document

    def keys(self) -> RemoteKeySet:
        return RemoteKeySet(self.fetch, ALGORITHMS, lambda: self.now)


async def test_concurrent_calls_share_one_fetch() -> None:
    issuer = Issuer(key_set(public_jwk("rsa-1")))
    keys = issuer.keys()
    await asyncio.gather(*(good(keys, token_of("rsa-1")) for _ in range(20)))
    assert issuer.fetched == 1


async def test_unknown_key_id_causes_a_rate_limited_fetch() -> None:
    issuer = Issuer(key_set(public_jwk("rsa-1")))
    keys = issuer.keys()
    await good(keys, token_of("rsa-1"))
    issuer.document = key_set(public_jwk("rsa-1"), public_jwk("rsa-2"))
    issuer.now = 20
    await good(keys, token_of("rsa-2"))
    for _ in range(20):
        assert "unknown key" in await refusal(keys, token_of("rsa-3"))
    assert issuer.fetched == 2


async def test_revoked_key_is_rejected_after_the_refresh() -> None:
    issuer = Issuer(key_set(public_jwk("rsa-1"), public_jwk("rsa-2")))
    keys = issuer.keys()
    await good(keys, token_of("rsa-1"))
    issuer.document = key_set(public_jwk("rsa-2"))
    issuer.now = 301
    await keys.find_key("rsa-2")  # starts the refresh in the background
    assert keys._fetch_task is not None
    await keys._fetch_task
    assert "unknown key" in await refusal(keys, token_of("rsa-1"))


async def test_cached_keys_are_used_while_the_issuer_is_down() -> None:
    issuer = Issuer(key_set(public_jwk("rsa-1")))
    keys = issuer.keys()
    await good(keys, token_of("rsa-1"))
    issuer.down = True
    issuer.now = 3000
    await good(keys, token_of("rsa-1"))
    issuer.now = 3601
    assert "cannot be checked" in await refusal(keys, token_of("rsa-1"))
    issuer.down, issuer.now = False, 3700
    await good(keys, token_of("rsa-1"))


async def test_no_key_is_accepted_before_the_first_fetch() -> None:
    issuer = Issuer(b"not a key set")
    keys = issuer.keys()
    assert "cannot be checked" in await refusal(keys, token_of("rsa-1"))
    issuer.down = True
    issuer.now = 20
    with pytest.raises(Fault):
        await keys.find_key("rsa-1")


async def test_cancelled_call_does_not_cancel_the_fetch() -> None:
    issuer, fetch_started = Issuer(key_set(public_jwk("rsa-1"))), threading.Event()

    def slow() -> bytes:
        fetch_started.wait(5)
        return issuer.fetch()

    keys = RemoteKeySet(slow, ALGORITHMS, lambda: issuer.now)
    impatient = asyncio.create_task(keys.find_key("rsa-1"))
    await asyncio.sleep(0)
    impatient.cancel()
    fetch_started.set()
    await good(keys, token_of("rsa-1"))
    assert issuer.fetched == 1


@contextmanager
def web(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """Serve HTTP on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def replying(body: bytes, status: int = 200, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


async def test_key_set_is_fetched_over_http(tmp_path: Path) -> None:
    with web(replying(key_set(public_jwk("rsa-1")))) as url:
        settings = settings_without_embedder(
            tmp_path / "data", jwt_jwks=f"{url}/keys", jwt_issuer=ISSUER, jwt_audience=AUDIENCE
        )
        authenticator = make_authenticator(settings)
        metadata = (("authorization", f"Bearer {token_of('rsa-1')}"),)
        assert (await authenticator.authenticate(metadata, dict)).user_id == "ann"


def test_redirect_is_not_followed() -> None:
    with web(replying(b"elsewhere")) as elsewhere, web(replying(b"", 302, Location=elsewhere)) as url:
        assert fetch_document(elsewhere, 5) == b"elsewhere"
        with pytest.raises(OSError, match="302"):
            fetch_document(url, 5)


def test_document_above_the_size_limit_is_rejected() -> None:
    with web(replying(b"x" * 1_000_001)) as url, pytest.raises(OSError, match="larger than"):
        fetch_document(url, 5)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://issuer.example/keys", True),
        ("http://127.0.0.1:80/keys", True),
        ("http://localhost/keys", True),
        ("http://[::1]/keys", True),
        ("http://issuer.example/keys", False),
        ("http://127.0.0.1.evil.example/keys", False),
        ("http://127.0.0.1@evil.example/keys", False),
        ("ftp://127.0.0.1/keys", False),
        ("file:///etc/passwd", False),
    ],
)
def test_key_set_url_must_be_secure(url: str, *, expected: bool) -> None:
    assert is_secure_url(url) is expected
