"""Interceptors and hooks that an embedding program adds to the server."""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from nomemory.server.api.pipeline import RequestHook


@dataclass(frozen=True, slots=True)
class HostInterceptors:
    """The interceptors and hooks of the embedding program, in the order in which they run.

    Attributes:
        grpc: gRPC interceptors, for example for tracing and metrics. These interceptors run for all gRPC calls, before
            the caller is authenticated and the request is read. To a gRPC interceptor, every handler takes a stream of
            encoded requests (`stream_unary`, `stream_stream`). A server with gRPC interceptors cannot serve HTTP.
        before_handler: hooks, for example for quotas and auditing. These hooks run after authorization, for gRPC and
            HTTP calls, with each request and its `CallContext`. User ids in the request are stored ids. A hook raises a
            `Fault` to reject the call.
    """

    grpc: tuple[grpc.aio.ServerInterceptor, ...] = ()
    before_handler: tuple[RequestHook, ...] = ()
