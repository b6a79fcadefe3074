"""The addresses at which the server listens."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.settings.serving import INSPECTOR_ADDRESS
from nomemory.server.runtime.startup_errors import CannotStartError


class ListenAddressError(CannotStartError):
    """The server must not, or cannot, listen there."""


UNIX: Final = "unix:"
"""What the address of a socket begins with; the rest is its path."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A host and a port, or a socket of the file system. Port 0 asks the system for a free one.

    `host` is `unix:PATH` for a socket, whose file says who may use it; its port means nothing.
    """

    host: str
    port: int

    def __str__(self) -> str:
        if self.host.startswith(UNIX):
            return self.host
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def is_loopback(self) -> bool:
        """Return whether only this machine can reach it."""
        return self.host.startswith(UNIX) or is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a server serves. `http` and `metrics` are None where it serves no such thing. As a text, that of gRPC."""

    grpc: ListenAddress
    http: ListenAddress | None = None
    metrics: ListenAddress | None = None

    def __str__(self) -> str:
        return str(self.grpc)


def parse_listen_address(text: str) -> ListenAddress:
    """Read `HOST:PORT`, or `unix:PATH`.

    Raises:
        ListenAddressError: it is not of that form.
    """
    if text.startswith(UNIX) and len(text) > len(UNIX):
        return ListenAddress(text, 0)
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:  # noqa: PLR2004 - the largest port there is
        raise ListenAddressError(f"{text!r} is not of the form HOST:PORT")
    return ListenAddress(host, int(port))


INSPECTOR: Final = "/inspect/"
"""The path of the inspector's page. It calls the contract at the root of the same origin."""


def http_address(settings: Settings) -> str:
    """Return it as HOST:PORT; empty: HTTP is not served."""
    return settings.http.listen or (INSPECTOR_ADDRESS if settings.http.inspector else "")
