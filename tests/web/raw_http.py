"""Raw bytes of a hostile HTTP client."""

from __future__ import annotations

import socket
from contextlib import closing
from urllib.parse import urlsplit


def connected(http: str) -> socket.socket:
    """Open a connection."""
    url = urlsplit(http)
    return socket.create_connection((url.hostname or "", url.port or 0), timeout=20)


def all_read(peer: socket.socket) -> bytes:
    """Return the received bytes until the server closes the connection."""
    parts = []
    try:
        while part := peer.recv(65_536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def answered(http: str, *parts: bytes) -> bytes:
    """Send bytes; return the received bytes until the server closes the connection."""
    with closing(connected(http)) as peer:
        try:
            for part in parts:
                peer.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return all_read(peer)


def request(line: str, *headers: str, body: bytes = b"") -> bytes:
    """Return a request that closes the connection."""
    head = [f"{line} HTTP/1.1", "host: localhost", "connection: close", *headers]
    return "\r\n".join([*head, "", ""]).encode("latin-1") + body
