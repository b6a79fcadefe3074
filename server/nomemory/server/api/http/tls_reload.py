"""Reloading of TLS files for the HTTP server."""

from __future__ import annotations

import ssl

from nomemory.server.api.identity.tls import TlsFiles
from nomemory.server.runtime.structured_logs import get_logger

_log = get_logger("http")


def create_reloading_context(files: TlsFiles) -> ssl.SSLContext:
    """Return an SSL context that reloads changed TLS files at each handshake, and ignores invalid files.

    Raises:
        OSError: a file cannot be read, or the key does not match the certificate.
    """
    versions, current = files.read_versions(), files.create_context()
    outer = files.create_context()

    def use_current_context(
        connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _context: ssl.SSLContext
    ) -> None:
        nonlocal versions, current
        try:
            if (changed := files.read_versions()) != versions:
                current, versions = files.create_context(), changed
        except OSError as error:
            _log.error("cannot load the changed TLS files, keeping the previous ones", kind=type(error).__name__)
        connection.context = current

    outer.sni_callback = use_current_context
    return outer
