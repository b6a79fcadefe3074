"""Certificates that are created during the tests."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LOCALHOST = (x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1")))


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self) -> bytes:
        form = serialization.PrivateFormat.PKCS8
        return self.key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())

    def written_to(self, directory: Path, name: str) -> tuple[Path, Path]:
        """Write the certificate and the key, and return their paths."""
        certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
        certificate.write_bytes(self.pem())
        key.write_bytes(self.key_pem())
        return certificate, key


def authority(name: str = "authority") -> Pair:
    """Create a certificate authority."""
    return _signed(name, (), None, is_authority=True)


def issued(by: Pair, name: str, *names: x509.GeneralName) -> Pair:
    """Issue a certificate signed by an authority."""
    return _signed(name, names, by, is_authority=False)


def _signed(name: str, names: tuple[x509.GeneralName, ...], by: Pair | None, *, is_authority: bool) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return Pair(builder.sign(by.key if by else key, hashes.SHA256()), key)
