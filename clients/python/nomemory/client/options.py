"""What the calls of both clients take by keyword.

How a client proves who it is, and how it verifies the server.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

import grpc

from nomemory.client.messages import Moment, RoleName


class Narrowing(TypedDict, total=False):
    """The filter of a read. Absent or None: no filter.

    `since` is inclusive, `until` exclusive; both need a time zone. `metadata` has up to 4 entries that a message must
    have.
    """

    since: Moment | None
    until: Moment | None
    role: RoleName | None
    conversation_id: str | None
    metadata: Mapping[str, str] | None


class Turn(TypedDict):
    """One turn of a conversation in progress: who speaks, and what they say (at most 4,000 characters)."""

    role: RoleName
    text: str


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
