"""How a client's channel is set up: retries, proxies, credentials."""

from __future__ import annotations

import json
from typing import Final

import grpc

SERVICES: Final = (
    "nomemory.v1.QueryService",
    "nomemory.v1.IngestService",
    "nomemory.v1.RecallService",
    "nomemory.v1.ServerService",
)
MAX_ATTEMPTS: Final = 5  # what gRPC itself caps a retry policy at
_RETRY_BUFFER_BYTES: Final = 16 << 20  # as much as a server takes: by gRPC's own 256 KB a large write is sent once

Options = list[tuple[str, str | int]]


def options(target: str, attempts: int) -> Options:
    """Return the channel options for a target.

    Every call of the contract may be sent again. Reads and recalls change nothing. Deletions and writes of messages
    with ids are idempotent, and the client gives a request id to batches whose messages have none. gRPC does not send
    a stream again once something of it has arrived.

    Args:
        target: HOST:PORT.
        attempts: how often a call that meets UNAVAILABLE is sent in all, 1 to 5.

    Raises:
        ValueError: `attempts` is out of range.
    """
    if not 1 <= attempts <= MAX_ATTEMPTS:
        raise ValueError(f"attempts must be 1 to {MAX_ATTEMPTS}")
    chosen: Options = _retries(attempts) if attempts > 1 else []
    if is_loopback(target):
        chosen.append(("grpc.enable_http_proxy", 0))
    return chosen


def is_loopback(target: str) -> bool:
    """Return whether a target is this machine. No proxy is used for it."""
    host = target.rpartition(":")[0].strip("[]")
    return host in {"localhost", "::1"} or host.startswith("127.")


def open_sync(target: str, credentials: grpc.ChannelCredentials | None, attempts: int) -> grpc.Channel:
    """Open a channel for blocking calls; in the clear where there are no credentials."""
    if credentials is None:
        return grpc.insecure_channel(target, options=options(target, attempts))
    return grpc.secure_channel(target, credentials, options=options(target, attempts))


def open_async(target: str, credentials: grpc.ChannelCredentials | None, attempts: int) -> grpc.aio.Channel:
    """Open a channel for asyncio; in the clear where there are no credentials."""
    if credentials is None:
        return grpc.aio.insecure_channel(target, options=options(target, attempts))
    return grpc.aio.secure_channel(target, credentials, options=options(target, attempts))


def _retries(attempts: int) -> Options:
    return [
        ("grpc.service_config", _service_config(attempts)),
        ("grpc.per_rpc_retry_buffer_size", _RETRY_BUFFER_BYTES),
    ]


def _service_config(attempts: int) -> str:
    policy = {
        "maxAttempts": attempts,
        "initialBackoff": "0.1s",
        "maxBackoff": "2s",
        "backoffMultiplier": 3,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    return json.dumps({"methodConfig": [{"name": [{"service": name} for name in SERVICES], "retryPolicy": policy}]})
