"""gRPC channel that distributes calls over several servers in rotation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import Any, Self

import grpc


class RoundRobinChannel(grpc.Channel):
    """A channel that sends each call through the next of several channels.

    A read directly after a write is therefore sent to a different server.

    Args:
        channels: one channel per server; `close` closes them.
    """

    def __init__(self, channels: Sequence[grpc.Channel]) -> None:
        self._channels = channels
        self._turns = cycle(range(len(channels)))

    def unary_unary(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - signature that gRPC's generated stubs use
        """Return a callable that rotates over the channels."""
        return self._create_callable([channel.unary_unary(*args, **kwargs) for channel in self._channels])

    def unary_stream(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as above
        """Return a callable that rotates over the channels."""
        return self._create_callable([channel.unary_stream(*args, **kwargs) for channel in self._channels])

    def stream_unary(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as above
        """Return a callable that rotates over the channels."""
        return self._create_callable([channel.stream_unary(*args, **kwargs) for channel in self._channels])

    def stream_stream(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as above
        """Return a callable that rotates over the channels."""
        return self._create_callable([channel.stream_stream(*args, **kwargs) for channel in self._channels])

    def subscribe(self, callback: Callable[[grpc.ChannelConnectivity], None], try_to_connect: bool = False) -> None:  # noqa: FBT001, FBT002 - gRPC's signature
        """Subscribe to all channels."""
        for channel in self._channels:
            channel.subscribe(callback, try_to_connect)

    def unsubscribe(self, callback: Callable[[grpc.ChannelConnectivity], None]) -> None:
        """Unsubscribe from all channels."""
        for channel in self._channels:
            channel.unsubscribe(callback)

    def close(self) -> None:
        """Close all channels."""
        for channel in self._channels:
            channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _create_callable(self, methods: Sequence[Callable[..., Any]]) -> _RoundRobinCallable:
        return _RoundRobinCallable(methods, self._turns)


class _RoundRobinCallable:
    """An RPC method that rotates over several servers."""

    def __init__(self, methods: Sequence[Any], turns: Iterator[int]) -> None:
        self._methods = methods
        self._turns = turns

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the result type of gRPC
        return self._next_method()(*args, **kwargs)

    def with_call(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as above
        return self._next_method().with_call(*args, **kwargs)

    def future(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as above
        return self._next_method().future(*args, **kwargs)

    def _next_method(self) -> Any:  # noqa: ANN401 - a method of a channel
        return self._methods[next(self._turns)]
