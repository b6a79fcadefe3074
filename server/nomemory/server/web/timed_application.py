"""An application that knows no deadlines, with some: a request arrives in time, and is answered in time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nomemory.server.web.exchange import AsgiApplication, Scope

if TYPE_CHECKING:
    from nomemory.server.web.connection import Connection


@dataclass(frozen=True, slots=True)
class TimedApplication:
    """Passes requests on; ends the connection of one that takes too long.

    Attributes:
        application: answers them.
        body_s: how long the body may take to arrive.
        answer_s: how long all of it may take, until the client has taken the answer.
    """

    application: AsgiApplication
    body_s: float
    answer_s: float

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's messages are dicts
        """Answer one request."""
        connection: Connection = scope["state"].pop("connection")
        with connection.working():
            try:
                async with asyncio.timeout(self.answer_s) as time:
                    await self.application(scope, _Body(receive, connection, self.body_s).receive, send)
            except TimeoutError:
                if not time.expired():
                    raise
                connection.abort()


class _Body:
    """The body of a request, as far as it comes in time."""

    def __init__(self, receive: Any, connection: Connection, seconds: float) -> None:  # noqa: ANN401 - as above
        self._receive = receive
        self._connection = connection
        self._until = asyncio.get_running_loop().time() + seconds
        self._is_whole = False

    async def receive(self) -> Any:  # noqa: ANN401 - as above
        """Return its next part; once it is whole, wait until the client goes."""
        if self._is_whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            self._connection.abort()
            return {"type": "http.disconnect"}
        self._is_whole = not message.get("more_body", False)
        return message
