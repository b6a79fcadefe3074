"""Interceptors and hooks of the host program, in which the server runs as a library."""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from nomemory.server.api.pipeline import RequestHook


@dataclass(frozen=True, slots=True)
class HostInterceptors:
    """The interceptors and hooks of the host program, in the order in which they run.

    Attributes:
        grpc: gRPC interceptors, for example for tracing and metrics. The interceptors run for all gRPC calls, before
            the caller is authenticated and the request is read. In a gRPC interceptor, the handler of every method
            takes a stream of encoded requests (`stream_unary` or `stream_stream`). A server with gRPC interceptors
            cannot serve HTTP.
        before_handler: hooks, for example for quotas and auditing. Hooks run after authorization, for gRPC and HTTP
            calls, and receive each request and its `CallContext`. The user ids in the request include the namespace
            prefix. A hook raises a `Fault` to reject the call.
    """

    grpc: tuple[grpc.aio.ServerInterceptor, ...] = ()
    before_handler: tuple[RequestHook, ...] = ()
