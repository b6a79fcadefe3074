"""TLS: the server's certificate, and the authority of its clients' certificates."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc

from nomemory.server.api.identity.credentials import IdentitySettingsError
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.structured_logs import get_logger

_log = get_logger("identity")
_Stamp = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files, in PEM. With `client_ca` every client must show a certificate that this authority has signed."""

    certificate: Path
    key: Path
    client_ca: Path | None

    def stamp(self) -> _Stamp:
        """Return when the files changed.

        Raises:
            OSError: one of them is not there.
        """
        files = (self.certificate, self.key, self.client_ca)
        return tuple((seen.st_mtime_ns, seen.st_ino) for seen in (file.stat() for file in files if file))

    def context(self) -> ssl.SSLContext:
        """Return what handshakes of Python's own servers go by. It makes sure that the files belong together.

        Raises:
            OSError: they do not (ssl.SSLError is one), or one cannot be read.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # An empty passphrase, or OpenSSL would ask for one on the terminal.
        context.load_cert_chain(self.certificate, self.key, password="")
        if self.client_ca:
            context.load_verify_locations(self.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def configuration(self) -> grpc.ServerCertificateConfiguration:
        """Read them."""
        authority = self.client_ca.read_bytes() if self.client_ca else None
        return grpc.ssl_server_certificate_configuration(
            [(self.key.read_bytes(), self.certificate.read_bytes())], authority
        )


def tls_files(settings: Settings) -> TlsFiles | None:
    """Return the files of the settings; None: in the clear.

    Raises:
        IdentitySettingsError: a setting is missing.
    """
    identity = settings.identity
    if identity.tls_identities and not identity.tls_client_ca:
        raise IdentitySettingsError("NOMEMORY_TLS_IDENTITIES needs NOMEMORY_TLS_CLIENT_CA: who signs the certificates")
    if identity.tls_cert and identity.tls_key:
        return TlsFiles(identity.tls_cert, identity.tls_key, identity.tls_client_ca)
    if identity.tls_cert or identity.tls_key or identity.tls_client_ca:
        raise IdentitySettingsError("TLS needs both NOMEMORY_TLS_CERT and NOMEMORY_TLS_KEY")
    return None


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Make the credentials of a port. The files are looked at at each handshake, so they can be renewed in place.

    Raises:
        IdentitySettingsError: they cannot be used.
    """
    try:
        files.context()
        renewal = _Renewal(files, files.stamp())
        initial = files.configuration()
    except OSError as error:
        raise IdentitySettingsError(f"the files for TLS cannot be used: {error.strerror or error}") from None
    return grpc.dynamic_ssl_server_credentials(
        initial,
        renewal.fetch,  # type: ignore[arg-type]  # gRPC's documentation: None means that nothing has changed
        require_client_authentication=files.client_ca is not None,
    )


class _Renewal:
    """Notices that the files have changed. While they make no sense together, what was there before stays."""

    def __init__(self, files: TlsFiles, stamp: _Stamp) -> None:
        self._files = files
        self._stamp = stamp

    def fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """Return what is new since the last time; None: nothing."""
        try:
            stamp = self._files.stamp()
            if stamp == self._stamp:
                return None
            self._files.context()
            renewed = self._files.configuration()
        except OSError as error:
            _log.error("the files for TLS cannot be used, those from before stay", kind=type(error).__name__)
            return None
        self._stamp = stamp
        return renewed
