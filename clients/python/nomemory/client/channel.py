"""gRPC channels: options, retries and credentials."""

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
MAX_ATTEMPTS: Final = 5  # gRPC allows no more attempts in a retry policy
_RETRY_BUFFER_BYTES: Final = (
    16 << 20
)  # the server's maximum request size; gRPC does not retry requests above its default of 256 KB

Options = list[tuple[str, str | int]]


def build_channel_options(target: str, attempts: int) -> Options:
    """Return the gRPC channel options for a target. All methods of the API are retried.

    Retries are safe: deletions and writes with message ids are idempotent, and the client adds a request id to a batch
    without message ids. gRPC does not retry a stream after its first message has arrived.

    Args:
        target: HOST:PORT.
        attempts: maximum number of attempts for a call that fails with UNAVAILABLE, 1 to 5.

    Raises:
        ValueError: `attempts` is out of range.
    """
    if not 1 <= attempts <= MAX_ATTEMPTS:
        raise ValueError(f"attempts must be 1 to {MAX_ATTEMPTS}, got {attempts}")
    chosen: Options = _build_retry_options(attempts) if attempts > 1 else []
    if is_loopback(target):
        chosen.append(("grpc.enable_http_proxy", 0))
    return chosen


def is_loopback(target: str) -> bool:
    """Return whether a target is a loopback address, for which no proxy is used."""
    host = target.rpartition(":")[0].strip("[]")
    return host in {"localhost", "::1"} or host.startswith("127.")


def open_blocking_channel(target: str, credentials: grpc.ChannelCredentials | None, attempts: int) -> grpc.Channel:
    """Open a blocking channel. Without credentials, the channel is not encrypted."""
    if credentials is None:
        return grpc.insecure_channel(target, options=build_channel_options(target, attempts))
    return grpc.secure_channel(target, credentials, options=build_channel_options(target, attempts))


def open_asyncio_channel(target: str, credentials: grpc.ChannelCredentials | None, attempts: int) -> grpc.aio.Channel:
    """Open an asyncio channel. Without credentials, the channel is not encrypted."""
    if credentials is None:
        return grpc.aio.insecure_channel(target, options=build_channel_options(target, attempts))
    return grpc.aio.secure_channel(target, credentials, options=build_channel_options(target, attempts))


def _build_retry_options(attempts: int) -> Options:
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


class ClientCredentials(TypedDict, total=False):
    """Credentials of a client: API key or user token, and TLS options. `nomemory.client.Client` documents them."""

    api_key: str | None
    token: str | None
    tls: bool
    tls_ca: str | os.PathLike[str] | None
    tls_cert: str | os.PathLike[str] | None
    tls_key: str | os.PathLike[str] | None


def add_authorization(metadata: Sequence[tuple[str, str]], identity: ClientCredentials) -> Metadata:
    """Add an `authorization` entry for the API key or token to the metadata.

    Raises:
        ValueError: both an API key and a token are set.
    """
    key, token = identity.get("api_key"), identity.get("token")
    if key and token:
        raise ValueError("api_key and token cannot be combined")
    credential = key or token
    return (*metadata, ("authorization", f"Bearer {credential}")) if credential else tuple(metadata)


def create_channel_credentials(identity: ClientCredentials) -> grpc.ChannelCredentials | None:
    """Return channel credentials with the TLS options; None for an unencrypted channel.

    Raises:
        OSError: a TLS file cannot be read.
        ValueError: only one of `tls_cert` and `tls_key` is set.
    """
    authorities = _read_file(identity.get("tls_ca"))
    certificate, key = _read_file(identity.get("tls_cert")), _read_file(identity.get("tls_key"))
    if (certificate is None) != (key is None):
        raise ValueError("tls_cert and tls_key must be used together")
    if not identity.get("tls") and authorities is None and certificate is None:
        return None
    return grpc.ssl_channel_credentials(authorities, key, certificate)


def _read_file(path: str | os.PathLike[str] | None) -> bytes | None:
    return Path(path).read_bytes() if path else None
