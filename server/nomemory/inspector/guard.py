"""Who may use the inspector of this machine: the page that was opened with its address, and nobody else.

Its calls have the operator's credentials. So they bring a token, which stands behind `#` in the address that was
printed: browsers send that part to nobody, and other pages do not know it. A page that has its own name lead to this
machine (DNS rebinding) goes by a name that is not let in.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Final

from nomemory.server.faults import Fault, Reason
from nomemory.server.listen_address import ListenAddress
from nomemory.server.web.errors import RefusedError
from nomemory.server.web.exchange import Exchange

_TOKEN_BYTES: Final = 32
_OWN_SITES: Final = ("", "same-origin", "none")


class Guard:
    """Lets requests in.

    Attributes:
        token: what calls bring.
    """

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._hosts: frozenset[str] = frozenset()

    def stand_at(self, address: ListenAddress) -> None:
        """Take the names by which the address is reached."""
        self._hosts = frozenset({str(address), f"localhost:{address.port}"})

    def admit(self, exchange: Exchange) -> None:
        """Look by which name a request comes, and from which page.

        Raises:
            RefusedError: the name is another one, or the page is.
            Fault: MALFORMED_REQUEST.
        """
        host, origin = exchange.header(b"host").lower(), exchange.header(b"origin")
        if host not in self._hosts:
            raise _refused("the inspector goes by its own address only")
        if origin and origin != f"http://{host}":
            raise _refused("pages of other origins may not use the inspector")

    def authorize(self, exchange: Exchange) -> None:
        """Look for the token of a call.

        Raises:
            RefusedError: the call comes from another site.
            Fault: CREDENTIALS_MISSING, CREDENTIALS_INVALID, MALFORMED_REQUEST.
        """
        if exchange.header(b"sec-fetch-site") not in _OWN_SITES:
            raise _refused("pages of other sites may not use the inspector")
        kind, _, token = exchange.header(b"authorization").partition(" ")
        if not token:
            raise Fault(Reason.ERROR_REASON_CREDENTIALS_MISSING, "open the address that `nomemory inspect` has printed")
        if kind.lower() != "bearer" or not hmac.compare_digest(token.encode(), self.token.encode()):
            raise Fault(Reason.ERROR_REASON_CREDENTIALS_INVALID, "this is the address of an inspector that has ended")


def _refused(message: str) -> RefusedError:
    return RefusedError(Fault(Reason.ERROR_REASON_ORIGIN_REFUSED, message))
