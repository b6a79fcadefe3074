"""How a server is reached: one address or several, to which the calls go by turns, with or without a key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import grpc

from proofs.alternating import AlternatingChannel
from proofs.conformance.http_channel import HttpChannel

_TIMEOUT_S = 60.0
_OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", 64 << 20)]


@dataclass(frozen=True, slots=True)
class Reached:
    """Where a server is, and what it is shown.

    Attributes:
        targets: each of its replicas: HOST:PORT for gRPC, http://HOST:PORT or https://HOST:PORT for HTTP.
        token: a key or a token; empty: none.
        authority: certificates (PEM) to trust; None: the calls are in the clear.
    """

    targets: Sequence[str]
    token: str = ""
    authority: Path | None = None

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What each call is sent with."""
        return (("authorization", f"Bearer {self.token}"),) if self.token else ()

    def channel(self) -> grpc.Channel:
        """Open connections to all replicas as one channel, which goes from one to the next with each call."""
        return AlternatingChannel([self._to(target) for target in self.targets])

    def _to(self, target: str) -> grpc.Channel:
        if is_http(target):
            return HttpChannel(urlsplit(target).netloc, self.authority, self.metadata, _TIMEOUT_S)
        return grpc.intercept_channel(self._over_grpc(target), _Stamp(self.metadata))

    def _over_grpc(self, target: str) -> grpc.Channel:
        if self.authority is None:
            return grpc.insecure_channel(target, _OPTIONS)
        credentials = grpc.ssl_channel_credentials(self.authority.read_bytes())
        return grpc.secure_channel(target, credentials, _OPTIONS)


def is_http(target: str) -> bool:
    """Return whether a target is a URL."""
    return target.startswith(("http://", "https://"))


class _Details(NamedTuple):
    """A call, as gRPC's interceptors have it."""

    method: str
    timeout: float | None
    metadata: Sequence[tuple[str, str | bytes]] | None
    credentials: grpc.CallCredentials | None
    wait_for_ready: bool | None
    compression: grpc.Compression | None


class _Stamp(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor, grpc.StreamUnaryClientInterceptor):
    """Gives each call the token, and an end."""

    def __init__(self, metadata: tuple[tuple[str, str], ...]) -> None:
        self._metadata = metadata

    def intercept_unary_unary(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:  # noqa: ANN401 - gRPC's
        return continuation(self._stamped(details), request)

    def intercept_unary_stream(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:  # noqa: ANN401 - gRPC's
        return continuation(self._stamped(details), request)

    def intercept_stream_unary(self, continuation: Callable[..., Any], details: Any, requests: Any) -> Any:  # noqa: ANN401 - gRPC's
        return continuation(self._stamped(details), requests)

    def _stamped(self, given: Any) -> _Details:  # noqa: ANN401 - gRPC's
        metadata = (*(given.metadata or ()), *self._metadata)
        return _Details(given.method, given.timeout or _TIMEOUT_S, metadata, given.credentials, True, given.compression)  # noqa: FBT003 - named above
