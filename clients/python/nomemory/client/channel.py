"""How a client's channel is set up: retries, proxies; how a client proves who it is, and how it verifies the server."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypedDict

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
    policy = {
        "maxAttempts": attempts,
        "initialBackoff": "0.1s",
        "maxBackoff": "2s",
        "backoffMultiplier": 3,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    config = {"methodConfig": [{"name": [{"service": name} for name in SERVICES], "retryPolicy": policy}]}
    return [("grpc.service_config", json.dumps(config)), ("grpc.per_rpc_retry_buffer_size", _RETRY_BUFFER_BYTES)]


Metadata = tuple[tuple[str, str], ...]


class Identity(TypedDict, total=False):
    """Credentials of the caller, and TLS. None means absent.

    `api_key` is a service's key, `token` a user's token: at most one of them. `tls` asks for TLS with the well-known
    authorities; `tls_ca` with the authorities of a PEM file instead. `tls_cert` and `tls_key` are the PEM files of the
    caller's own certificate, where the server wants one. Any of the files implies TLS.
    """

    api_key: str | None
    token: str | None
    tls: bool
    tls_ca: str | os.PathLike[str] | None
    tls_cert: str | os.PathLike[str] | None
    tls_key: str | os.PathLike[str] | None


def with_credential(metadata: Sequence[tuple[str, str]], identity: Identity) -> Metadata:
    """Add the credential to the metadata of calls.

    Raises:
        ValueError: there are two credentials.
    """
    key, token = identity.get("api_key"), identity.get("token")
    if key and token:
        raise ValueError("give an API key or a token, not both")
    credential = key or token
    return (*metadata, ("authorization", f"Bearer {credential}")) if credential else tuple(metadata)


def channel_credentials(identity: Identity) -> grpc.ChannelCredentials | None:
    """Make the credentials of a channel; None: in the clear.

    Raises:
        OSError: a file cannot be read.
        ValueError: a certificate without its key, or a key without its certificate.
    """
    authorities = _content(identity.get("tls_ca"))
    certificate, key = _content(identity.get("tls_cert")), _content(identity.get("tls_key"))
    if (certificate is None) != (key is None):
        raise ValueError("a client certificate and its key go together")
    if not identity.get("tls") and authorities is None and certificate is None:
        return None
    return grpc.ssl_channel_credentials(authorities, key, certificate)


def _content(path: str | os.PathLike[str] | None) -> bytes | None:
    return Path(path).read_bytes() if path else None
