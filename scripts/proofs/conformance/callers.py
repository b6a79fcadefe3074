"""How a server is reached: one address or several, to which the calls go by turns, with or without a key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import grpc

from proofs.contract import METHODS, Metadata, Outcome
from proofs.http_transport import HttpTransport
from proofs.round_robin_channel import RoundRobinChannel

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
        return RoundRobinChannel([self._to(target) for target in self.targets])

    def _to(self, target: str) -> grpc.Channel:
        if is_http(target):
            return HttpChannel(target, self.authority, self.metadata, _TIMEOUT_S)
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


class HttpRefusalError(grpc.RpcError):
    """A call over HTTP was refused."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.details)
        self._outcome = outcome

    def code(self) -> grpc.StatusCode:
        """Return the code that the answer names."""
        return self._outcome.code

    def details(self) -> str:
        """Return the sentence of the answer."""
        return self._outcome.details


class HttpChannel(grpc.Channel):
    """Carries calls to one server.

    Args:
        target: its URL.
        authority: certificates (PEM) to trust; None: the calls are in the clear.
        metadata: sent with each call.
        timeout_s: how long a call may take.
    """

    def __init__(self, target: str, authority: Path | None, metadata: Metadata, timeout_s: float) -> None:
        self._transport = HttpTransport(target, authority)
        self._metadata = metadata
        self._timeout_s = timeout_s

    def unary_unary(self, method: str, *_: Any, **given: Any) -> Any:  # noqa: ANN401 - as gRPC's generated stubs call it
        """Give a method of one request and one reply."""
        sent, read = _formats(given)
        return lambda request: read(*self._replies(method, sent(request)))

    def unary_stream(self, method: str, *_: Any, **given: Any) -> Any:  # noqa: ANN401 - the same
        """Give a method of one request and several replies."""
        sent, read = _formats(given)
        return lambda request: map(read, self._replies(method, sent(request)))

    def stream_unary(self, method: str, *_: Any, **given: Any) -> Any:  # noqa: ANN401 - the same
        """Give a method of several requests and one reply. They are sent as one, which has what all of them have."""
        sent, read = _formats(given)
        return lambda requests: read(*self._replies(method, b"".join(map(sent, requests))))

    def stream_stream(self, *_: Any, **__: Any) -> Any:  # noqa: ANN401 - the same
        """Give nothing: the contract has no such method."""

    def subscribe(self, callback: Callable[[grpc.ChannelConnectivity], None], try_to_connect: bool = False) -> None:  # noqa: FBT001, FBT002 - gRPC's signature
        """Do nothing: whether it is connected shows with the next call."""

    def unsubscribe(self, callback: Callable[[grpc.ChannelConnectivity], None]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _replies(self, path: str, request: bytes) -> Iterator[bytes]:
        method = METHODS[path.rpartition("/")[2]]
        outcome = self._transport.call(method, request, self._metadata, self._timeout_s)
        if outcome.code is not grpc.StatusCode.OK:
            raise HttpRefusalError(outcome)
        return iter(outcome.replies)


def _formats(given: Mapping[str, Any]) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    """Return what makes bytes of a request, and a reply of bytes."""
    return given["request_serializer"], given["response_deserializer"]
