"""A gRPC server that is replaced if grpcio stops accepting calls.

grpcio decodes the paths of calls as UTF-8 in the task that accepts all calls, before any interceptor runs. In grpcio
1.85, a path that is not UTF-8 ends this task, and the server accepts no more calls. When the task ends, this module
starts a new server at the same address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

import grpc

from nomemory.server.runtime.listen_address import ListenAddress
from nomemory.server.runtime.processes.supervisor import Supervisor
from nomemory.server.runtime.structured_logs import get_logger

_log = get_logger("api")
_GRACE_S: Final = 5.0
"""Grace period for the calls in flight of a replaced server."""
_ACCEPT_LOOP: Final = "_server_main_loop"
"""The name of grpcio's coroutine that accepts calls."""

Listen = Callable[[ListenAddress], tuple[grpc.aio.Server, ListenAddress]]
"""Creates a server that listens at an address. Returns the server and the bound address."""


class RestartingServer:
    """Runs a gRPC server and replaces it if it stops accepting calls.

    Args:
        listen: creates a server that listens at an address; is retried after an error, except at the first start.
    """

    def __init__(self, listen: Listen) -> None:
        self._listen = listen
        self._server: grpc.aio.Server | None = None
        self._accepting = set[asyncio.Task[object]]()
        self._restarts: asyncio.Task[None] | None = None
        self._stopping = set[asyncio.Task[None]]()

    async def start(self, address: ListenAddress) -> ListenAddress:
        """Start the first server and return its bound address. Errors of `listen` propagate to the caller."""
        bound = await self._start_once(address)
        self._restarts = Supervisor().start_task("grpc-server", partial(self._restart, bound))
        return bound

    async def stop(self, grace_s: float) -> None:
        """Stop the server when its calls in flight have completed, but after at most `grace_s` seconds."""
        if self._restarts is not None:
            self._restarts.cancel()
            await asyncio.wait([self._restarts])
        if self._server is not None:
            await self._server.stop(grace_s)

    async def _start_once(self, address: ListenAddress) -> ListenAddress:
        server, bound = self._listen(address)
        tasks = asyncio.all_tasks()
        async with AsyncExitStack() as on_failure:
            on_failure.push_async_callback(server.stop, None)  # releases the port
            await server.start()
            on_failure.pop_all()
        new_tasks = asyncio.all_tasks() - tasks
        self._accepting = {task for task in new_tasks if _ACCEPT_LOOP in getattr(task.get_coro(), "__qualname__", "")}
        self._server = server
        return bound

    async def _restart(self, address: ListenAddress) -> None:
        while True:
            if self._server is None:
                await self._start_once(address)
            await asyncio.wait(self._accepting)
            _log.error("grpcio has stopped accepting calls; listening again")
            if self._server is not None:
                stopping = asyncio.create_task(self._server.stop(_GRACE_S))
                self._stopping.add(stopping)  # the event loop keeps only weak references to tasks
                stopping.add_done_callback(self._stopping.discard)
            self._server = None
