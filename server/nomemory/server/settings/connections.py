"""What clients may hold of a process: connections, calls, and bytes on their way in and out (docs/operating.md)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from nomemory.server.settings.group import SettingsGroup

_MIB = 1024 * 1024


class ConnectionSettings(SettingsGroup):
    """What clients may hold of one process."""

    heading: ClassVar[str] = "Connections and what is on its way"

    connections_max: int = Field(4096, ge=1, description="Most connections of a process; further ones are closed.")
    connection_streams_max: int = Field(
        100,
        ge=1,
        description="Most calls of a connection at once. A client keeps further ones until others have ended.",
    )
    connection_idle_s: float = Field(
        600.0, ge=1, le=86_400, description="How long a connection without a call stays open. Clients open another."
    )
    connection_handshake_s: float = Field(
        10.0, ge=0.1, le=600, description="How long a new connection may take until it speaks HTTP/2."
    )
    connection_proof_s: float = Field(
        10.0,
        gt=0,
        description="How long a connection may stay that has brought no whole request, where half of them are taken.",
    )
    keepalive_s: float = Field(
        60.0, ge=10, le=7200, description="How long a connection may be silent before it is asked for a sign of life."
    )
    client_ping_s: float = Field(
        5.0,
        ge=1,
        le=3600,
        description="How often a client may ask for a sign of life, calls or none; more often ends it.",
    )
    keepalive_timeout_s: float = Field(20.0, ge=1, le=600, description="How long that sign may take.")
    calls_max: int = Field(2000, ge=1, description="Most calls of a process at once that are being answered.")
    arriving_max: int = Field(1000, ge=1, description="Most requests at once that have not arrived whole.")
    arriving_quick_max: int = Field(
        32, ge=1, description="How many of those are read at once; the others wait with their clients."
    )
    arriving_quick_s: float = Field(
        0.05, gt=0, le=10, description="How long one of those may take before it gives way to the next."
    )
    arriving_slow_max: int = Field(
        32, ge=1, description="How many that gave way go on being read until their deadline."
    )
    arriving_slow_s: float = Field(
        1.0,
        ge=0,
        description="How long such a request may take at least; then it is given up where others need its place.",
    )
    uploads_max: int = Field(32, ge=1, description="Most ImportMessages of a process at once.")
    upload_idle_s: float = Field(
        30.0, ge=0, description="How long an import may send nothing; then it is given up where others need its place."
    )
    reflections_max: int = Field(16, ge=1, description="Most calls of reflection at once.")
    watches_max: int = Field(1000, ge=1, description="Most callers at once who watch the server's health.")
    unread_connection_max_bytes: int = Field(
        64 * _MIB,
        ge=1024,
        description="Most bytes of replies that the client of one connection has not taken yet. "
        "Each takes about two bytes of memory.",
    )
    unread_max_bytes: int = Field(256 * _MIB, ge=1024, description="The same for all connections of a process.")
    unread_s: float = Field(
        5.0,
        ge=0,
        description="How long a client may leave a reply unread where that limit is met; then its connection is "
        "closed. Elsewhere it is closed at the call's deadline.",
    )
    overload_retry_s: float = Field(1.0, ge=0, description="What refusals for these limits tell clients to wait.")
