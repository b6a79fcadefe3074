"""The addresses at which the server listens."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.settings.serving import INSPECTOR_ADDRESS
from nomemory.server.runtime.startup_errors import StartupError


class ListenAddressError(StartupError):
    """The listen address is malformed or not allowed."""


UNIX: Final = "unix:"
"""Prefix of a Unix domain socket address, followed by the path."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A TCP address or a Unix domain socket.

    Attributes:
        host: a host name or IP address, or `unix:PATH`.
        port: the TCP port; 0 lets the system choose a port; ignored for a Unix domain socket.
    """

    host: str
    port: int

    def __str__(self) -> str:
        if self.host.startswith(UNIX):
            return self.host
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def is_loopback(self) -> bool:
        """Return whether only clients on this machine can connect to the address."""
        return self.host.startswith(UNIX) or is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Return whether a host is `localhost` or a loopback IP address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class ListenAddresses:
    """The listen addresses of a server.

    Attributes:
        grpc: the listen address of the gRPC API.
        http: the listen address of the HTTP API; None if the API is disabled.
        metrics: the listen address of the separate metrics endpoint; None if the endpoint is disabled.
    """

    grpc: ListenAddress
    http: ListenAddress | None = None
    metrics: ListenAddress | None = None

    def __str__(self) -> str:
        return str(self.grpc)


def parse_listen_address(text: str) -> ListenAddress:
    """Parse `HOST:PORT` or `unix:PATH`.

    Raises:
        ListenAddressError: the text is neither a TCP address nor a Unix domain socket.
    """
    if text.startswith(UNIX) and len(text) > len(UNIX):
        return ListenAddress(text, 0)
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:  # noqa: PLR2004 - the highest port
        raise ListenAddressError(f"invalid listen address {text!r}: expected HOST:PORT or unix:PATH")
    return ListenAddress(host, int(port))


INSPECTOR: Final = "/inspect/"
"""URL path of the web inspector. Its page calls the API of the same origin."""


def get_http_address(settings: Settings) -> str:
    """Return the configured HTTP listen address as HOST:PORT, or an empty string if HTTP is disabled."""
    return settings.http.listen or (INSPECTOR_ADDRESS if settings.http.inspector else "")
