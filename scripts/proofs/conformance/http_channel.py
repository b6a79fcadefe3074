"""HTTP as a channel of gRPC: the stubs make their calls over it, in each of the forms that HTTP has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import grpc

from proofs.isolation.contract import METHODS, Metadata, Outcome
from proofs.isolation.http_transport import HttpTransport


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
        target: HOST:PORT.
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
        """Do nothing: connections end with their threads."""

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
