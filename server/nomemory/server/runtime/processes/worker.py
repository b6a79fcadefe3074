"""A worker process that is started by its first call, for calls that would hold the server's interpreter lock."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from nomemory.server.runtime.backoff import Backoff
from nomemory.server.runtime.processes.child_process import ChildProcess
from nomemory.server.runtime.processes.ipc_connection import CallFailedError, PipeClosedError
from nomemory.server.runtime.processes.spawn import Launch
from nomemory.server.runtime.processes.watchdog import WatchPolicy
from nomemory.server.runtime.processes.worker_errors import (
    WorkerError,
    WorkerFailedError,
    WorkerLostError,
    WorkerSlowError,
    WorkerUnavailableError,
)

_FIRST_RESTART_DELAY_S, _LONGEST_RESTART_DELAY_S = 0.1, 5.0


class Worker:
    """A worker process that the first call starts. If it dies, it is started again.

    Args:
        launch: how to start it.
        timeout_s: the time limit of a call. If the worker has sent nothing at all in that time, it is killed.
        part: its name in faults.
        policy: how it is watched.
    """

    def __init__(self, launch: Launch, timeout_s: float, part: str, policy: WatchPolicy) -> None:
        self._launch = launch
        self._part = part
        self._policy = policy
        self._timeout_s = timeout_s
        self._child: ChildProcess | None = None
        self._starting: asyncio.Task[ChildProcess] | None = None
        self._reviving: asyncio.Task[None] | None = None
        self._backoff = Backoff(_FIRST_RESTART_DELAY_S, _LONGEST_RESTART_DELAY_S, at_once=True)
        self._closed = False

    @property
    def process_id(self) -> int | None:
        """The process that is running now."""
        return self._child.process_id if self._child and self._child.pipe.is_open else None

    async def start(self) -> None:
        """Start the process, if it is not running.

        Raises:
            WorkerUnavailableError: it cannot be started.
        """
        await self._started()

    async def call(self, request: object) -> Any:  # noqa: ANN401 - as the worker answers
        """Send a request and return the answer.

        Raises:
            WorkerError: one of its subclasses says why there is no answer.
        """
        child = await self._started()
        try:
            answer = await self._answer(child, request)
        except CallFailedError as error:
            self._backoff.reset()
            raise WorkerFailedError(str(error)) from None
        self._backoff.reset()
        return answer

    def end(self) -> None:
        """Kill the process; the next call starts another one."""
        if self._child is not None:
            self._child.pipe.refuse_calls()
            self._child.kill()

    async def close(self) -> None:
        """Let the process finish its calls, then end it. One that is still starting is killed."""
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()  # what it loads may take longer than anybody would wait
            await asyncio.wait([self._starting])
        if self._child is not None:
            await self._child.close()

    async def _answer(self, child: ChildProcess, request: object) -> Any:  # noqa: ANN401 - as the worker answers
        try:
            async with asyncio.timeout(self._timeout_s):
                return await child.pipe.call(request)
        except PipeClosedError as error:
            raise WorkerLostError from error
        except TimeoutError:
            raise self._timed_out(child) from None

    def _timed_out(self, child: ChildProcess) -> WorkerError:
        """Kill a process that has said nothing at all; return the error of the call."""
        if asyncio.get_running_loop().time() - child.pipe.heard_at < self._timeout_s:
            return WorkerSlowError()
        child.pipe.refuse_calls()
        child.kill()
        return WorkerLostError()

    async def _started(self) -> ChildProcess:
        if self._closed:
            raise WorkerUnavailableError("closed")
        if self._child is not None and self._child.pipe.is_open:
            return self._child
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(self._note_started)
        return await asyncio.shield(self._starting)

    async def _start(self) -> ChildProcess:
        delay_s = self._backoff.next_s()
        if self._child is not None:
            await self._child.close()
        await asyncio.sleep(delay_s)
        self._child = await ChildProcess.start(self._launch, self._part, self._policy)
        self._reviving = asyncio.create_task(self._revive(self._child))
        return self._child

    async def _revive(self, child: ChildProcess) -> None:
        """Start another process when this one has ended, so that nobody waits for it later. Once: calls try again."""
        await child.pipe.wait_closed()
        if not self._closed:
            with suppress(WorkerUnavailableError):
                await self._started()

    def _note_started(self, starting: asyncio.Task[ChildProcess]) -> None:
        self._starting = None
        if not starting.cancelled():
            starting.exception()  # whoever waits for the task gets it; nobody may
