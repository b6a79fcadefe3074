"""A child process of a server, and the pipe to it."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Self

from nomemory.server.processes.connection import (
    Answer,
    CallFailedError,
    PipeClosedError,
    PipeConnection,
    answer_nothing,
)
from nomemory.server.processes.launch import Launch, WorkerUnavailableError
from nomemory.server.processes.watch import Watch, WatchPolicy

_START_MAX_S = 120.0
_EXIT_MAX_S = 20.0


class ChildProcess:
    """A process that ends when its pipe is closed. `start` makes one.

    Attributes:
        pipe: this end of the pipe.
    """

    def __init__(self, process: subprocess.Popen[bytes], pipe: PipeConnection, part: str, policy: WatchPolicy) -> None:
        self._process = process
        self.pipe = pipe
        watch = Watch(part, process.pid, pipe, process.kill, policy)
        self._watching = asyncio.create_task(watch.run(), name=f"watch-{part}")

    @property
    def process_id(self) -> int:
        """The id that the system knows it by."""
        return self._process.pid

    @classmethod
    async def start(cls, launch: Launch, part: str, policy: WatchPolicy, answer: Answer = answer_nothing) -> Self:
        """Start a process, watch it from then on, answer what it asks or tells, and wait until it is ready.

        Raises:
            WorkerUnavailableError: it cannot be started; the text is its own where it said why.
        """
        process, ours = launch.start()
        child = cls(process, await PipeConnection(answer).over(ours), part, policy)
        try:
            await child._wait_ready()
        except BaseException:
            await child.close(grace_s=0)
            raise
        return child

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()

    async def close(self, grace_s: float = _EXIT_MAX_S) -> None:
        """Close the pipe, which ends the process; kill it if it does not end. Returns when it is gone."""
        self._watching.cancel()
        self.pipe.close()
        await wait_ended(self._process, grace_s)
        await self.pipe.wait_closed()

    async def _wait_ready(self) -> None:
        try:
            async with asyncio.timeout(_START_MAX_S):
                await self.pipe.wait_ready()
        except (TimeoutError, PipeClosedError) as error:
            raise WorkerUnavailableError("did not start") from error
        except CallFailedError as error:
            raise WorkerUnavailableError(str(error)) from error


async def wait_ended(process: subprocess.Popen[bytes], grace_s: float) -> int:
    """Wait until a process has ended, kill it after a while; return its exit code."""
    try:
        return await asyncio.to_thread(process.wait, grace_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return await asyncio.to_thread(process.wait)
