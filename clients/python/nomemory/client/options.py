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


class Reading(TypedDict, total=False):
    """Options of every read: the fields to return (all by default), and a write token whose write must be seen."""

    return_fields: Sequence[str] | None
    at_least: str


class Paging(Narrowing, Reading, total=False):
    """What listings of messages take: 1 to 500 messages a page (50 by default), from a `next_cursor` on."""

    page_size: int
    cursor: str


class ListOptions(Paging, total=False):
    """The options of `list_messages`: newest first, unless `oldest_first` is set."""

    oldest_first: bool


class LexicalOptions(Paging, total=False):
    """The options of `lexical_search`. `snippet_chars` (1 to 1,000; 0: the server's default) asks for highlights."""

    snippet_chars: int | None


class SemanticOptions(Narrowing, Reading, total=False):
    """The options of `semantic_search`: at most `top_k` messages (20 by default), of at least `min_score`."""

    top_k: int
    min_score: float | None


class HybridOptions(Narrowing, Reading, total=False):
    """The options of `hybrid_search`: at most `top_k` messages (20 by default), each explained if `explain` is set.

    `embedding` is the caller's own vector of the question.
    """

    top_k: int
    explain: bool
    embedding: Sequence[float] | None


class NeighborOptions(TypedDict, total=False):
    """The options of `neighbors`: how many messages before (20 by default) and after (none by default)."""

    before: int | None
    after: int | None
    return_fields: Sequence[str] | None


class Turn(TypedDict):
    """One turn of a conversation in progress: who speaks, and what they say (at most 4,000 characters)."""

    role: RoleName
    text: str


class RecallOptions(TypedDict, total=False):
    """Where a recall starts, and with what. The search may go beyond `since`, `until` and `role`.

    Times need a time zone; `time_zone` is an IANA name. `question_embedding` is the caller's own vector of the
    question, of the server's dimension.

    `conversation_id` confines the recall to one conversation. `turns` are the last turns of the conversation in
    progress, oldest first, at most 20; with them the question may be empty. `at_least` is a write token: the recall
    waits until that write can be found. `evidence_messages` is how many messages the evidence may have, at most 50; 0:
    as many as the server gives by default.
    """

    since: Moment | None
    until: Moment | None
    role: RoleName | None
    now: Moment | None
    time_zone: str
    skill: str
    question_embedding: Sequence[float] | None
    conversation_id: str | None
    turns: Sequence[Turn]
    at_least: str
    evidence_messages: int


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
