"""Connections to a server with one or several addresses, with or without credentials."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import grpc

from proofs.contract import METHODS, CallOutcome, Metadata
from proofs.http_transport import HttpTransport
from proofs.round_robin_channel import RoundRobinChannel

_TIMEOUT_S = 60.0
_OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", 64 << 20)]


@dataclass(frozen=True, slots=True)
class ServerConnection:
    """Addresses and credentials of a server.

    Attributes:
        targets: addresses of the replicas: HOST:PORT for gRPC, http://HOST:PORT or https://HOST:PORT for HTTP.
        token: API key or user token; empty: no credentials.
        authority: file of trusted CA certificates (PEM). None: no TLS for gRPC, and those of the system for HTTPS.
    """

    targets: Sequence[str]
    token: str = ""
    authority: Path | None = None

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Metadata with the credentials of each call."""
        return (("authorization", f"Bearer {self.token}"),) if self.token else ()

    def open_channel(self) -> grpc.Channel:
        """Return a channel that rotates over all replicas."""
        return RoundRobinChannel([self._open_replica_channel(target) for target in self.targets])

    def _open_replica_channel(self, target: str) -> grpc.Channel:
        if is_http_url(target):
            return HttpChannel(target, self.authority, self.metadata, _TIMEOUT_S)
        return grpc.intercept_channel(self._open_grpc_channel(target), _CredentialsInterceptor(self.metadata))

    def _open_grpc_channel(self, target: str) -> grpc.Channel:
        if self.authority is None:
            return grpc.insecure_channel(target, _OPTIONS)
        credentials = grpc.ssl_channel_credentials(self.authority.read_bytes())
        return grpc.secure_channel(target, credentials, _OPTIONS)


def is_http_url(target: str) -> bool:
    """Return whether a target is an HTTP URL."""
    return target.startswith(("http://", "https://"))


class _CallDetails(NamedTuple):
    """The call details of a gRPC interceptor."""

    method: str
    timeout: float | None
    metadata: Sequence[tuple[str, str | bytes]] | None
    credentials: grpc.CallCredentials | None
    wait_for_ready: bool | None
    compression: grpc.Compression | None


class _CredentialsInterceptor(
    grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor, grpc.StreamUnaryClientInterceptor
):
    """An interceptor that adds credentials and a deadline to each call."""

    def __init__(self, metadata: tuple[tuple[str, str], ...]) -> None:
        self._metadata = metadata

    def intercept_unary_unary(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:  # noqa: ANN401 - a type of gRPC
        return continuation(self._add_credentials(details), request)

    def intercept_unary_stream(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:  # noqa: ANN401 - a type of gRPC
        return continuation(self._add_credentials(details), request)

    def intercept_stream_unary(self, continuation: Callable[..., Any], details: Any, requests: Any) -> Any:  # noqa: ANN401 - a type of gRPC
        return continuation(self._add_credentials(details), requests)

    def _add_credentials(self, details: Any) -> _CallDetails:  # noqa: ANN401 - a type of gRPC
        metadata = (*(details.metadata or ()), *self._metadata)
        return _CallDetails(
            method=details.method,
            timeout=details.timeout or _TIMEOUT_S,
            metadata=metadata,
            credentials=details.credentials,
            wait_for_ready=True,
            compression=details.compression,
        )


class HttpCallError(grpc.RpcError):
    """Raised for an error response of an HTTP call."""

    def __init__(self, outcome: CallOutcome) -> None:
        super().__init__(outcome.details)
        self._outcome = outcome

    def code(self) -> grpc.StatusCode:
        """Return the gRPC status code of the response."""
        return self._outcome.code

    def details(self) -> str:
        """Return the error message of the response."""
        return self._outcome.details


class HttpChannel(grpc.Channel):
    """A gRPC channel interface over HTTP calls to one server.

    Args:
        authority: file of trusted CA certificates (PEM); None: those of the system.
        timeout_s: timeout of each call in seconds.
    """

    def __init__(self, target: str, authority: Path | None, metadata: Metadata, timeout_s: float) -> None:
        self._transport = HttpTransport(target, authority)
        self._metadata = metadata
        self._timeout_s = timeout_s

    def unary_unary(self, method: str, *_: Any, **options: Any) -> Any:  # noqa: ANN401 - signature that gRPC's generated stubs use
        """Return a callable for a method with one request and one reply."""
        serialize, parse = _select_serializers(options)
        return lambda request: parse(*self._iterate_replies(method, serialize(request)))

    def unary_stream(self, method: str, *_: Any, **options: Any) -> Any:  # noqa: ANN401 - as above
        """Return a callable for a method that streams replies."""
        serialize, parse = _select_serializers(options)
        return lambda request: map(parse, self._iterate_replies(method, serialize(request)))

    def stream_unary(self, method: str, *_: Any, **options: Any) -> Any:  # noqa: ANN401 - as above
        """Return a callable for a method that streams requests; the callable sends all requests in one HTTP request."""
        serialize, parse = _select_serializers(options)
        return lambda requests: parse(*self._iterate_replies(method, b"".join(map(serialize, requests))))

    def stream_stream(self, *_: Any, **__: Any) -> Any:  # noqa: ANN401 - as above
        """Return None, because no method of the API streams in both directions."""

    def subscribe(self, callback: Callable[[grpc.ChannelConnectivity], None], try_to_connect: bool = False) -> None:  # noqa: FBT001, FBT002 - gRPC's signature
        """Ignore the callback: HTTP has no connectivity state."""

    def unsubscribe(self, callback: Callable[[grpc.ChannelConnectivity], None]) -> None:
        """Ignore the callback."""

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _iterate_replies(self, path: str, request: bytes) -> Iterator[bytes]:
        method = METHODS[path.rpartition("/")[2]]
        outcome = self._transport.call(method, request, self._metadata, self._timeout_s)
        if outcome.code is not grpc.StatusCode.OK:
            raise HttpCallError(outcome)
        return iter(outcome.replies)


def _select_serializers(options: Mapping[str, Any]) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    """Return the request serializer and the response parser."""
    return options["request_serializer"], options["response_deserializer"]
