"""Which web pages may call, and by which names the server goes.

A browser runs pages of everybody on a machine that this server may trust. So a page of another origin may call only
where the settings name it. A page could also have its own name lead to this machine (DNS rebinding). So a server that
asks for no credentials goes by names that nobody else can have: addresses, and `localhost`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

from nomemory.server.faults import Fault, Reason
from nomemory.server.identity.factory import checks_credentials
from nomemory.server.settings import Settings
from nomemory.server.web.errors import RefusedError
from nomemory.server.web.exchange import Exchange, Headers

_ANY: Final = "*"
_HEADERS_ALLOWED: Final = (
    b"authorization, content-type, x-api-key, x-user-id, x-user-id-bin, x-request-id, x-timeout-ms, "
    b"traceparent, tracestate, "
    b"connect-protocol-version, connect-timeout-ms"
)
_VERBS_ALLOWED: Final = b"GET, POST, PUT, PATCH, DELETE"
_EXPOSED: Final = (b"access-control-expose-headers", b"x-request-id, retry-after")
_VARY: Final = (b"vary", b"origin")


class Origins:
    """Decides about the pages and names of requests."""

    def __init__(self, settings: Settings) -> None:
        self._allowed = frozenset(settings.http.cors_origins.split())
        self._max_age_s = settings.http.cors_max_age_s
        self._trusts_everybody = not checks_credentials(settings)

    def admit(self, exchange: Exchange) -> None:
        """Look where a request comes from, and set the headers of its answer.

        Raises:
            RefusedError: it comes from a page that may not call, or goes by a name that is not the server's.
            Fault: MALFORMED_REQUEST.
        """
        host, origin = exchange.header(b"host"), exchange.header(b"origin")
        if self._trusts_everybody and not _is_own_name(host):
            raise _refused("this server goes by addresses and by localhost only")
        if not origin:
            return
        if self._allowed & {origin, _ANY}:
            exchange.common = (*_allowing(origin.encode()), _EXPOSED)
        elif origin.partition("://")[2] != host:
            raise _refused("pages of this origin may not call this server: NOMEMORY_HTTP_CORS_ORIGINS")

    def is_preflight(self, exchange: Exchange) -> bool:
        """Return whether a browser asks if a page may call."""
        return exchange.verb == "OPTIONS" and bool(exchange.header(b"access-control-request-method"))

    def preflight(self) -> Headers:
        """Return the answer's headers to a browser that asks."""
        return (
            (b"access-control-allow-methods", _VERBS_ALLOWED),
            (b"access-control-allow-headers", _HEADERS_ALLOWED),
            (b"access-control-max-age", b"%d" % self._max_age_s),
        )


def _allowing(origin: bytes) -> Iterable[tuple[bytes, bytes]]:
    return (b"access-control-allow-origin", origin), _VARY


def _refused(message: str) -> RefusedError:
    return RefusedError(Fault(Reason.ERROR_REASON_ORIGIN_REFUSED, message))


def _is_own_name(host: str) -> bool:
    """Return whether a Host is an address or `localhost`, with a port or without."""
    name, _, port = host.rpartition(":")
    name = name if name and port.isdecimal() else host
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return name.lower() == "localhost"
    return True
