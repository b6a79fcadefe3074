"""HTTP as a way into a server."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from functools import partial
from urllib.parse import quote

from proofs.isolation.contract import Metadata
from proofs.isolation.http_forms import http_forms
from proofs.isolation.http_transport import open_http
from proofs.isolation.odd_requests import ALLOWED_ORIGIN, attack_with_odd_requests
from proofs.isolation.way import Hold, Way
from proofs.isolation.world import Attacker

_AHEAD = 10


def http_holds(target: str, metadata: Metadata, reader: Attacker) -> Mapping[str, Hold]:
    """Say nothing, begin heads and bodies and end none, ask for pages and a stream and read none of them."""
    who = "".join(f"{name}: {value}\r\n" for name, value in metadata if isinstance(value, str))
    asked = f"GET /v1/users/{quote(reader.user_id, safe='')}/messages"
    rest = f" HTTP/1.1\r\nhost: {target}\r\n{who}"
    return {
        "silence": lambda _connection: None,
        "heads that never end": partial(_send, f"{asked}{rest}x: "),
        "bodies that never end": partial(_send, f"POST /v1/messages:import{rest}{_BODY}[{' ' * 10_000}"),
        "pages that nobody reads": partial(_send, f"{asked}{rest}\r\n" * _AHEAD),
        "a stream that nobody reads": partial(_send, f"{asked}:export{rest}\r\n"),
    }


_BODY = "content-type: application/x-ndjson\r\ncontent-length: 1000000\r\n\r\n"


def _send(text: str, connection: socket.socket) -> None:
    connection.sendall(text.encode())


HTTP = Way(
    "http",
    open_http,
    {"NOMEMORY_HTTP": "127.0.0.1:0", "NOMEMORY_HTTP_CORS_ORIGINS": ALLOWED_ORIGIN},
    http_forms,
    http_holds,
    attack_with_odd_requests,
)
