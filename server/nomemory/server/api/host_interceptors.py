"""Interceptors of a program that embeds the server."""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from nomemory.server.api.pipeline import RequestHook


@dataclass(frozen=True, slots=True)
class HostInterceptors:
    """Interceptors of the embedding program. Tuples list the outermost interceptor first.

    Attributes:
        grpc: interceptors for tracing and metrics. The interceptors process all gRPC calls, including rejected ones.
            The caller is not authenticated yet, and the request has not been read. Therefore the handlers of all
            methods take a stream of encoded requests (`stream_unary`, `stream_stream`). HTTP does not support gRPC
            interceptors, so a server with gRPC interceptors cannot serve HTTP.
        before_handler: hooks for quotas and auditing. The hooks run after authorization, over gRPC and HTTP, with each
            request and its `CallContext`. User ids in the request are stored ids. A hook raises a `Fault` to reject the
            call.
    """

    grpc: tuple[grpc.aio.ServerInterceptor, ...] = ()
    before_handler: tuple[RequestHook, ...] = ()
