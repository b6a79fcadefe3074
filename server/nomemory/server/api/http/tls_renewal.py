"""A TLS context whose files can be renewed in place."""

from __future__ import annotations

import ssl

from nomemory.server.api.identity.tls import TlsFiles
from nomemory.server.runtime.structured_logs import get_logger

_log = get_logger("http")


def renewed_context(files: TlsFiles) -> ssl.SSLContext:
    """Return a context that looks at the files at each handshake. While they do not fit together, the old ones stay.

    Raises:
        OSError: they do not fit together now, or one cannot be read.
    """
    stamp, current = files.stamp(), files.context()
    outer = files.context()

    def use_current(connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _context: ssl.SSLContext) -> None:
        nonlocal stamp, current
        try:
            if (changed := files.stamp()) != stamp:
                current, stamp = files.context(), changed
        except OSError as error:
            _log.error("the TLS files cannot be used, the old ones stay", kind=type(error).__name__)
        connection.context = current

    outer.sni_callback = use_current
    return outer
