"""A worker process with its connection and its watchdog."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Final, Self

from nomemory.server.runtime.processes.ipc_connection import (
    CallFailedError,
    OnNotification,
    PipeClosedError,
    PipeConnection,
    ignore_notification,
)
from nomemory.server.runtime.processes.spawn import ProcessLaunch
from nomemory.server.runtime.processes.watchdog import Watchdog, WatchPolicy
from nomemory.server.runtime.processes.worker_errors import WorkerUnavailableError

_START_TIMEOUT_S: Final = 120.0
_EXIT_TIMEOUT_S: Final = 20.0


class ChildProcess:
    """A running worker process, which exits when its connection is closed.

    Attributes:
        pipe: the server's end of the connection to the process.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], pipe: PipeConnection, component: str, policy: WatchPolicy
    ) -> None:
        self._process = process
        self.pipe = pipe
        watchdog = Watchdog(component, process.pid, pipe, process.kill, policy)
        self._watching = asyncio.create_task(watchdog.run(), name=f"watchdog-{component}")

    @property
    def process_id(self) -> int:
        """The PID of the worker process."""
        return self._process.pid

    @classmethod
    async def start(
        cls,
        launch: ProcessLaunch,
        component: str,
        policy: WatchPolicy,
        on_notification: OnNotification = ignore_notification,
    ) -> Self:
        """Start a worker process with a watchdog, and wait until it accepts calls.

        `component` is the name of the process in faults. `on_notification` is called with each notification that the
        process sends.

        Raises:
            WorkerUnavailableError: the process cannot be started, or has reported a startup error.
        """
        process, ours = launch.start()
        child = cls(process, await PipeConnection.open(ours, on_notification), component, policy)
        try:
            await child._wait_until_ready()
        except BaseException:
            await child.close(grace_s=0)
            raise
        return child

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()

    async def close(self, grace_s: float = _EXIT_TIMEOUT_S) -> None:
        """Close the connection, and kill the process if it does not exit within `grace_s` seconds."""
        self._watching.cancel()
        self.pipe.close()
        await asyncio.to_thread(_wait_or_kill, self._process, grace_s)
        await self.pipe.wait_closed()

    async def _wait_until_ready(self) -> None:
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                await self.pipe.wait_until_ready()
        except (TimeoutError, PipeClosedError) as error:
            raise WorkerUnavailableError("did not start") from error
        except CallFailedError as error:
            raise WorkerUnavailableError(str(error)) from error


def _wait_or_kill(process: subprocess.Popen[bytes], grace_s: float) -> None:
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
