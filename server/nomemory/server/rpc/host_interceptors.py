"""A host's own gRPC interceptors, beside NoMemory's."""

from __future__ import annotations

from dataclasses import dataclass

import grpc


@dataclass(frozen=True, slots=True)
class HostInterceptors:
    """Interceptors by where they stand, each tuple in the order in which a call meets them.

    A call meets `outer`, then `NoMemoryInterceptor`, then `inner`, then the service.

    Attributes:
        outer: see every call, refused ones too, with its final status. Requests and replies are bytes. Nobody is
            authenticated yet, so `current_call()` is None when a call arrives. So no request has been read: handlers
            take a stream of requests (`stream_unary`, `stream_stream`), also where there is one, and a refused call's
            stream is not read. Who wraps it reads a message only when asked for it. For tracing and metrics.
        inner: their handlers run for admitted calls only, and are of the kinds that the contract says. Requests are
            parsed and confined to the caller's users, user ids are the stored ones (with a caller's namespace),
            `current_call()` says who calls and which user is bound, and the call's deadline holds. For quotas and
            audits. They may end a call with `context.abort`. Their `intercept_service` runs before admission, as gRPC
            looks handlers up first: what depends on the caller belongs in the handler that it returns. Health and
            reflection pass here, too, with `current_call()` None.
    """

    outer: tuple[grpc.aio.ServerInterceptor, ...] = ()
    inner: tuple[grpc.aio.ServerInterceptor, ...] = ()
