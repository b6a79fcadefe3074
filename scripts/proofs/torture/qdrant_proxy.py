"""TCP proxy of a Qdrant server that can interrupt all connections."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit, urlunsplit

_CHUNK = 1 << 16


class QdrantProxy:
    """A TCP proxy that forwards bytes between clients and a server."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._upstream = (parts.hostname or "127.0.0.1", parts.port or 6334)
        self._open = True
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = urlunsplit(
            (parts.scheme or "http", f"127.0.0.1:{self._listener.getsockname()[1]}", parts.path, "", "")
        )

    @contextmanager
    def serve(self) -> Iterator[QdrantProxy]:
        """Serve until the context exits."""
        threading.Thread(target=self._accept_connections, daemon=True).start()
        try:
            yield self
        finally:
            self._listener.close()
            self.interrupt()

    def interrupt(self) -> None:
        """Close all connections and reject new connections until `resume` is called."""
        with self._lock:
            self._open = False
            closed, self._sockets = self._sockets, set()
        for item in closed:
            with suppress(OSError):
                item.shutdown(socket.SHUT_RDWR)
            item.close()

    def resume(self) -> None:
        """Accept connections again."""
        self._open = True

    def _accept_connections(self) -> None:
        with suppress(OSError):  # the listener has been closed
            while True:
                caller, _ = self._listener.accept()
                threading.Thread(target=self._forward, args=(caller,), daemon=True).start()

    def _forward(self, caller: socket.socket) -> None:
        if not self._open:
            caller.close()
            return
        try:
            server = socket.create_connection(self._upstream, timeout=10)
        except OSError:
            caller.close()
            return
        server.settimeout(None)
        with self._lock:
            self._sockets |= {caller, server}
        threading.Thread(target=_copy_bytes, args=(caller, server), daemon=True).start()
        _copy_bytes(server, caller)


def _copy_bytes(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(_CHUNK):
            sink.sendall(chunk)
    for item in (source, sink):
        with suppress(OSError):
            item.shutdown(socket.SHUT_RDWR)
