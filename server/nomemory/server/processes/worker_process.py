"""A process of its own for what would hold the interpreter's lock: started on demand, spoken to over a pipe.

It is started with `python -m`, not with `multiprocessing`, which would import the caller's main module (and gRPC with
it) into every worker, and could not give it an environment of its own.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from nomemory.server.backoff import Backoff
from nomemory.server.processes.pipe import Answer
from nomemory.server.processes.pipe_client import PipeClient, PipeClosedError

_START_MAX_S = 120.0
_EXIT_MAX_S = 20.0
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.1, 5.0


class WorkerError(Exception):
    """A worker did not answer a call."""


class WorkerLostError(WorkerError):
    """The worker died, or said nothing for too long and was killed, while this call was with it."""


class WorkerUnavailableError(WorkerError):
    """There is no worker: it could not be started, or was closed."""


class WorkerSlowError(WorkerError):
    """The worker is busy with other calls and did not answer this one in time."""


class WorkerFailedError(WorkerError):
    """The worker answered that the call failed; the text is the kind of error."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a worker: a module that is run with the pipe's descriptor and then these arguments.

    Attributes:
        logs: whether it writes to this process's standard error.
    """

    module: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    logs: bool = False

    def start(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        """Start a process; return it and this end of its pipe. `-P` keeps the current directory from shadowing modules.

        Raises:
            WorkerUnavailableError: the system refuses.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            command = [sys.executable, "-P", "-m", self.module, str(descriptor), *self.arguments]
            try:
                process = subprocess.Popen(  # noqa: S603 - a command of our own
                    command,
                    pass_fds=[descriptor],
                    env={**os.environ, **self.environment},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=None if self.logs else subprocess.DEVNULL,
                )
            except OSError as error:
                ours.close()
                raise WorkerUnavailableError("cannot be started") from error
        return process, ours


class Worker:
    """A worker that is started by the first call and again by the first one after its death.

    Args:
        launch: how to start it.
        timeout_s: how long it may say nothing while calls wait; then it is killed. The same for a single call, but
            that alone costs only the call.
    """

    def __init__(self, launch: Launch, timeout_s: float) -> None:
        self._launch = launch
        self._timeout_s = timeout_s
        self._link: _Link | None = None
        self._starting: asyncio.Task[_Link] | None = None
        self._backoff = Backoff(_FIRST_DELAY_S, _LONGEST_DELAY_S, at_once=True)
        self._closed = False

    @property
    def process_id(self) -> int | None:
        """The process that is running now."""
        return self._link.process_id if self._link and self._link.alive else None

    async def start(self) -> None:
        """Have a process ready.

        Raises:
            WorkerUnavailableError: it cannot be started.
        """
        await self._connected()

    async def call(self, request: object) -> Any:  # noqa: ANN401 - as the worker answers
        """Have a request answered.

        Raises:
            WorkerError: it was not; one of the kinds above.
        """
        link = await self._connected()
        answer = await link.ask(request)
        self._backoff.reset()
        if answer.error:
            raise WorkerFailedError(answer.error)
        return answer.value

    async def close(self) -> None:
        """Let the process finish what it has, and end it."""
        self._closed = True
        if self._starting is not None:
            await asyncio.wait([self._starting])
        if self._link is not None:
            await self._link.close()

    async def _connected(self) -> _Link:
        if self._closed:
            raise WorkerUnavailableError("closed")
        if self._link is not None and self._link.alive:
            return self._link
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(self._started)
        return await asyncio.shield(self._starting)

    async def _start(self) -> _Link:
        delay_s = self._backoff.next_s()
        if self._link is not None:
            await self._link.close()
        await asyncio.sleep(delay_s)
        self._link = await _Link.open(self._launch, self._timeout_s)
        return self._link

    def _started(self, starting: asyncio.Task[_Link]) -> None:
        self._starting = None
        if not starting.cancelled():
            starting.exception()  # whoever waits for the task gets it; nobody may


class _Link:
    """One running process and the calls that are with it."""

    def __init__(self, process: subprocess.Popen[bytes], client: PipeClient, timeout_s: float) -> None:
        self._process = process
        self._client = client
        self._timeout_s = timeout_s

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._client.is_open

    @classmethod
    async def open(cls, launch: Launch, timeout_s: float) -> Self:
        """Start a process and wait until it is ready."""
        process, ours = launch.start()
        link = cls(process, await PipeClient.connected(ours), timeout_s)
        try:
            await link.greeted()
        except BaseException:
            await link.close(grace_s=0)
            raise
        return link

    async def greeted(self) -> None:
        """Wait until the process is ready."""
        try:
            async with asyncio.timeout(_START_MAX_S):
                answer = await self._client.greeted()
        except (TimeoutError, PipeClosedError) as error:
            raise WorkerUnavailableError("did not start") from error
        if answer.error:
            raise WorkerUnavailableError(answer.error)

    async def ask(self, request: object) -> Answer:
        """Send a request and wait for its answer."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._client.ask(request)
        except PipeClosedError as error:
            raise WorkerLostError from error
        except TimeoutError:
            raise self._given_up() from None

    async def close(self, grace_s: float = _EXIT_MAX_S) -> None:
        """Close the pipe, which ends the process; kill it if it does not end. Returns when it is gone."""
        self._client.close()
        await ended(self._process, grace_s)
        await self._client.wait_closed()

    def _given_up(self) -> WorkerError:
        if asyncio.get_running_loop().time() - self._client.heard_at < self._timeout_s:
            return WorkerSlowError()
        self._client.give_up()
        self._process.kill()
        return WorkerLostError()


async def ended(process: subprocess.Popen[bytes], grace_s: float) -> int:
    """Wait until a process has ended, kill it after a while; returns its exit code."""
    try:
        return await asyncio.to_thread(process.wait, grace_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return await asyncio.to_thread(process.wait)
