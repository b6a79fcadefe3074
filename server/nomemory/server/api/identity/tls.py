"""TLS certificates and keys of the server, and the certificate authority of its clients."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc

from nomemory.server.api.identity.credentials import IdentitySettingsError
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.structured_logs import get_logger

_log = get_logger("identity")
_FileVersions = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The PEM files of the TLS configuration.

    If `client_ca` is set, clients must present a certificate that this authority has signed.
    """

    certificate: Path
    key: Path
    client_ca: Path | None

    def read_versions(self) -> _FileVersions:
        """Return the modification time and inode of each TLS file.

        Raises:
            OSError: a file does not exist.
        """
        files = (self.certificate, self.key, self.client_ca)
        return tuple((stat.st_mtime_ns, stat.st_ino) for stat in (file.stat() for file in files if file))

    def create_context(self) -> ssl.SSLContext:
        """Load the TLS files into an SSL context.

        Raises:
            OSError: a file cannot be read, or the key does not match the certificate (`ssl.SSLError`).
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Without a passphrase, OpenSSL prompts for one on the terminal.
        context.load_cert_chain(self.certificate, self.key, password="")
        if self.client_ca:
            context.load_verify_locations(self.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def read_configuration(self) -> grpc.ServerCertificateConfiguration:
        """Read the TLS files into a gRPC certificate configuration."""
        authority = self.client_ca.read_bytes() if self.client_ca else None
        return grpc.ssl_server_certificate_configuration(
            [(self.key.read_bytes(), self.certificate.read_bytes())], authority
        )


def get_tls_files(settings: Settings) -> TlsFiles | None:
    """Return the TLS files that the settings configure, or None if TLS is not configured.

    Raises:
        IdentitySettingsError: a setting is missing.
    """
    identity = settings.identity
    if identity.tls_identities and not identity.tls_client_ca:
        raise IdentitySettingsError("NOMEMORY_TLS_IDENTITIES requires NOMEMORY_TLS_CLIENT_CA")
    if identity.tls_cert and identity.tls_key:
        return TlsFiles(identity.tls_cert, identity.tls_key, identity.tls_client_ca)
    if identity.tls_cert or identity.tls_key or identity.tls_client_ca:
        raise IdentitySettingsError("TLS requires both NOMEMORY_TLS_CERT and NOMEMORY_TLS_KEY")
    return None


def create_server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Create gRPC server credentials that reload changed TLS files at each handshake.

    Raises:
        IdentitySettingsError: the TLS files cannot be loaded.
    """
    try:
        files.create_context()
        renewal = _CertificateReloader(files, files.read_versions())
        initial = files.read_configuration()
    except OSError as error:
        raise IdentitySettingsError(f"cannot load the TLS files: {error.strerror or error}") from None
    return grpc.dynamic_ssl_server_credentials(
        initial,
        renewal.load_if_changed,  # type: ignore[arg-type]  # gRPC accepts None for an unchanged configuration
        require_client_authentication=files.client_ca is not None,
    )


class _CertificateReloader:
    """Reloads changed TLS files. While the changed files are invalid, the previous configuration stays in use."""

    def __init__(self, files: TlsFiles, versions: _FileVersions) -> None:
        self._files = files
        self._versions = versions

    def load_if_changed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the new TLS configuration, or None if the files are unchanged or invalid."""
        try:
            versions = self._files.read_versions()
            if versions == self._versions:
                return None
            self._files.create_context()
            configuration = self._files.read_configuration()
        except OSError as error:
            _log.error("cannot load the changed TLS files, keeping the previous ones", kind=type(error).__name__)
            return None
        self._versions = versions
        return configuration
