"""A worker process for calls that would hold the GIL of the server."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from nomemory.server.runtime.backoff import Backoff
from nomemory.server.runtime.processes.child_process import ChildProcess
from nomemory.server.runtime.processes.ipc_connection import CallFailedError, PipeClosedError
from nomemory.server.runtime.processes.spawn import ProcessLaunch
from nomemory.server.runtime.processes.watchdog import WatchPolicy
from nomemory.server.runtime.processes.worker_errors import (
    WorkerError,
    WorkerFailedError,
    WorkerLostError,
    WorkerSlowError,
    WorkerUnavailableError,
)

_FIRST_RESTART_DELAY_S, _MAX_RESTART_DELAY_S = 0.1, 5.0


class Worker:
    """A worker process that is started by the first call and restarted if it dies.

    Args:
        timeout_s: the time limit of a call, in seconds. A worker that sends no message during a call that times out is
            killed.
        component: the name of the process in faults.
    """

    def __init__(self, launch: ProcessLaunch, timeout_s: float, component: str, policy: WatchPolicy) -> None:
        self._launch = launch
        self._component = component
        self._policy = policy
        self._timeout_s = timeout_s
        self._child: ChildProcess | None = None
        self._starting: asyncio.Task[ChildProcess] | None = None
        self._restarting: asyncio.Task[None] | None = None
        self._backoff = Backoff(_FIRST_RESTART_DELAY_S, _MAX_RESTART_DELAY_S, retry_immediately=True)
        self._closed = False

    @property
    def process_id(self) -> int | None:
        """The PID of the worker process; None if no process is running."""
        return self._child.process_id if self._child and self._child.pipe.is_open else None

    async def start(self) -> None:
        """Start the worker process unless it is running.

        Raises:
            WorkerUnavailableError: the process cannot be started.
        """
        await self._ensure_started()

    async def call(self, request: object) -> Any:  # noqa: ANN401 - the type depends on the worker
        """Send a request to the worker, which is started if necessary, and return the result.

        Raises:
            WorkerError: the worker returned no result; the subclass states the cause.
        """
        child = await self._ensure_started()
        try:
            result = await self._call_child(child, request)
        except CallFailedError as error:
            self._backoff.reset()
            raise WorkerFailedError(str(error)) from None
        self._backoff.reset()
        return result

    def kill(self) -> None:
        """Kill the process. The next call after a kill starts a new process."""
        if self._child is not None:
            self._child.pipe.reject_calls()
            self._child.kill()

    async def close(self) -> None:
        """Stop the worker process, which may finish its current call, or kill it if it is still starting."""
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()  # loading a model may take long
            await asyncio.wait([self._starting])
        if self._child is not None:
            await self._child.close()

    async def _call_child(self, child: ChildProcess, request: object) -> Any:  # noqa: ANN401 - as `call`
        try:
            async with asyncio.timeout(self._timeout_s):
                return await child.pipe.call(request)
        except PipeClosedError as error:
            raise WorkerLostError from error
        except TimeoutError:
            raise self._handle_timeout(child) from None

    def _handle_timeout(self, child: ChildProcess) -> WorkerError:
        """Return the error of a call that timed out, and kill the worker if it sent no message during the call."""
        if asyncio.get_running_loop().time() - child.pipe.heard_at < self._timeout_s:
            return WorkerSlowError()
        child.pipe.reject_calls()
        child.kill()
        return WorkerLostError()

    async def _ensure_started(self) -> ChildProcess:
        if self._closed:
            raise WorkerUnavailableError("closed")
        if self._child is not None and self._child.pipe.is_open:
            return self._child
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(self._on_started)
        return await asyncio.shield(self._starting)

    async def _start(self) -> ChildProcess:
        delay_s = self._backoff.compute_next_delay_s()
        if self._child is not None:
            await self._child.close()
        await asyncio.sleep(delay_s)
        self._child = await ChildProcess.start(self._launch, self._component, self._policy)
        self._restarting = asyncio.create_task(self._restart_after_exit(self._child))
        return self._child

    async def _restart_after_exit(self, child: ChildProcess) -> None:
        """Wait until the worker process exits, and restart it once, before the next call needs it."""
        await child.pipe.wait_closed()
        if not self._closed:
            with suppress(WorkerUnavailableError):
                await self._ensure_started()

    def _on_started(self, starting: asyncio.Task[ChildProcess]) -> None:
        self._starting = None
        if not starting.cancelled():
            starting.exception()  # mark the exception as retrieved, because the task may never be awaited
