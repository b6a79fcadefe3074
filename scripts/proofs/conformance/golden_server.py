"""Server of the golden scenario: empty, with TLS, API keys and user tokens, without an embedder."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final

import jwt
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from evaluation.temporary_server import temporary_server


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Create a self-signed certificate for 127.0.0.1, valid for one day; return the certificate and key files."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate, private = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(_sign_certificate(key).public_bytes(Encoding.PEM))
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    private.chmod(0o600)
    return certificate, private


def _sign_certificate(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "nomemory golden scenario")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))
    addresses = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1"))])
    builder = builder.add_extension(addresses, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return builder.sign(key, SHA256())


SECRET: Final = "the secret of the golden scenario, which guards nothing"  # noqa: S105 - test secret
ISSUER: Final = "https://issuer.example"
AUDIENCE: Final = "nomemory"
KEYS: Final = {
    "service": ("query", "ingest", "recall", "act-as", "admin"),
    "reader": ("query",),
}
"""API keys of the scenario, with their scopes."""
USERS: Final = ("lin", "sam")
"""Users with a token."""


@contextmanager
def run_golden_server() -> Iterator[Path]:
    """Run a server; yield the path of its connection file.

    The file is JSON with `target` (HOST:PORT), `http` (URL), `authorities` (file of trusted certificates) and
    `bearers`, the bearer tokens by caller name; a caller with an empty token sends no credentials.
    """
    with tempfile.TemporaryDirectory(prefix="nomemory-golden-") as name:
        folder = Path(name)
        keys = folder / "keys.json"
        certificate, private = write_certificate(folder)
        bearers = {"nobody": "", "forged": _create_jwt("lin", "another secret, also of more than 32 bytes")}
        bearers |= {caller: _create_api_key(keys, caller, scopes) for caller, scopes in KEYS.items()}
        bearers |= {user: _create_jwt(user, SECRET) for user in USERS}
        with temporary_server(_build_server_settings(keys, certificate, private)) as server:
            connection_file = folder / "server.json"
            connection = {
                "target": server.target,
                "http": server.http,
                "authorities": str(certificate),
                "bearers": bearers,
            }
            connection_file.write_text(json.dumps(connection), encoding="utf-8")
            yield connection_file


def _build_server_settings(keys: Path, certificate: Path, private: Path) -> Mapping[str, str]:
    return {
        "NOMEMORY_AUDIT_LOG": "false",
        "NOMEMORY_HTTP_LISTEN": "127.0.0.1:0",
        "NOMEMORY_EMBEDDER": "none",
        "NOMEMORY_EMBEDDING_DIMENSION": "4",
        "NOMEMORY_API_KEYS": str(keys),
        "NOMEMORY_JWT_SECRET": SECRET,
        "NOMEMORY_JWT_ISSUER": ISSUER,
        "NOMEMORY_JWT_AUDIENCE": AUDIENCE,
        "NOMEMORY_TLS_CERT": str(certificate),
        "NOMEMORY_TLS_KEY": str(private),
    }


def _create_api_key(keys: Path, name: str, scopes: tuple[str, ...]) -> str:
    """Create an API key with the command line."""
    scope_options = [word for scope in scopes for word in ("--scope", scope)]
    command = [str(Path(sys.executable).with_name("nomemory")), "keys", "create", "--name", name, *scope_options]
    created = subprocess.run(  # noqa: S603 - fixed program
        [*command, "--file", str(keys)], check=True, capture_output=True, text=True
    )
    (key,) = (word for word in created.stdout.split() if word.startswith("nm_"))
    return key


def _create_jwt(user: str, secret: str) -> str:
    expires = datetime.now(UTC) + timedelta(hours=1)
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": user, "exp": expires, "scope": "query recall"}
    return jwt.encode(claims, secret, "HS256")
