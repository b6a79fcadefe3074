"""Which web pages may call, and by which names the server goes.

A browser runs pages of everybody on a machine that this server may trust. So a page of another origin may call only
where the settings name it. A page could also have its own name lead to this machine (DNS rebinding). So a server that
asks for no credentials goes by names that nobody else can have: addresses, and `localhost`.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from nomemory.server.faults import Fault, Reason
from nomemory.server.identity.factory import checks_credentials
from nomemory.server.settings import Settings
from nomemory.server.web.errors import Headers
from nomemory.server.web.exchange import Exchange

_HEADERS_ALLOWED: Final = (
    b"authorization, content-type, x-api-key, x-user-id, x-user-id-bin, x-request-id, x-timeout-ms, "
    b"traceparent, tracestate, "
    b"connect-protocol-version, connect-timeout-ms"
)
_ALLOWED: Final[Headers] = (
    (b"vary", b"origin"),
    (b"access-control-expose-headers", b"x-request-id, retry-after"),
)


class Origins:
    """Decides about the pages and names of requests."""

    def __init__(self, settings: Settings) -> None:
        self._allowed = frozenset(settings.http.cors_origins.split())
        self._preflight: Headers = (
            (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
            (b"access-control-allow-headers", _HEADERS_ALLOWED),
            (b"access-control-max-age", b"%d" % settings.http.cors_max_age_s),
        )
        self._trusts_everybody = not checks_credentials(settings)

    async def admit(self, exchange: Exchange) -> None:
        """Look where a request comes from, and set the headers of its answer. A browser that asks is answered.

        Raises:
            Fault: ORIGIN_REFUSED, it comes from a page that may not call, or goes by a name that is not the server's;
                MALFORMED_REQUEST.
        """
        host, origin = exchange.header(b"host"), exchange.header(b"origin")
        if self._trusts_everybody and not _is_own_name(host):
            raise _refused("this server goes by addresses and by localhost only")
        if origin and self._allowed & {origin, "*"}:
            exchange.common = ((b"access-control-allow-origin", origin.encode()), *_ALLOWED)
        elif origin and origin.partition("://")[2] != host:
            raise _refused("pages of this origin may not call this server: NOMEMORY_HTTP_CORS_ORIGINS")
        if exchange.verb == "OPTIONS" and exchange.header(b"access-control-request-method"):
            await exchange.respond(204, self._preflight, b"")


def _refused(message: str) -> Fault:
    return Fault(Reason.ERROR_REASON_ORIGIN_REFUSED, message)


def _is_own_name(host: str) -> bool:
    """Return whether a Host is an address or `localhost`, with a port or without."""
    name, _, port = host.rpartition(":")
    name = name if name and port.isdecimal() else host
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return name.lower() == "localhost"
    return True
