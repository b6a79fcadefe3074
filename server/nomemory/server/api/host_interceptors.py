"""Functions of a program that embeds the server, which run around its calls."""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from nomemory.server.api.pipeline import RequestHook


@dataclass(frozen=True, slots=True)
class HostInterceptors:
    """Interceptors of the embedding program. Each tuple is in the order in which a call meets them.

    Attributes:
        grpc: see every call over gRPC, refused ones too, with its final status. For tracing and metrics. The caller is
            not authenticated yet, so no request has been read: handlers take a stream of requests (`stream_unary`,
            `stream_stream`) as bytes, also where there is one request. HTTP has no such interceptors, so a server that
            has some does not serve HTTP.
        before_handler: run after validation, over gRPC and HTTP, with each request and its `CallContext`. User ids in
            the request are the stored ones. For quotas and audits: to refuse a call, raise a `Fault`.
    """

    grpc: tuple[grpc.aio.ServerInterceptor, ...] = ()
    before_handler: tuple[RequestHook, ...] = ()
