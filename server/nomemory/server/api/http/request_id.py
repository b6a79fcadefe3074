"""Request ids of HTTP requests."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nomemory.server.api.call import REQUEST_ID, get_request_id


class RequestIdMiddleware:
    """Middleware that adds the client's request id, or a random one, to the request and the response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process a request."""
        request_id = get_request_id([(REQUEST_ID, Headers(scope=scope).get(REQUEST_ID, ""))])
        scope["state"][REQUEST_ID] = request_id

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[REQUEST_ID] = request_id
            await send(message)

        await self._app(scope, receive, send_with_id)


def get_scope_request_id(scope: Scope) -> str:
    """Return the request id that the middleware stored in an ASGI scope."""
    request_id: str = scope["state"][REQUEST_ID]
    return request_id
