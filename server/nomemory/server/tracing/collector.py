"""The collector that gets the spans."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Collector:
    """Where spans go.

    Attributes:
        target: HOST:PORT.
        is_tls: whether the connection is encrypted.
        trusted: certificates to trust, PEM; None: those that gRPC trusts.
        headers: what is sent along.
        timeout_s: how long it may take for a batch.
        service: what this server is called.
    """

    target: str
    is_tls: bool
    trusted: bytes | None
    headers: tuple[tuple[str, str], ...]
    timeout_s: float
    service: str
