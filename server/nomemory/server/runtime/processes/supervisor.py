"""Restarts background jobs that fail, logs their failures, and reports them for the status."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

from nomemory.server.runtime.backoff import Backoff
from nomemory.server.runtime.structured_logs import get_logger

_FIRST_RESTART_DELAY_S, _LONGEST_RESTART_DELAY_S = 0.2, 10.0
_FAULT_LASTS_S = 30.0
"""How long a job is reported as failing after its latest failure."""

_NO_FAILURES = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)
"""Exceptions that end a job without a failure. All others are failures, even a BaseException such as a panic."""

_log = get_logger("supervisor")


@dataclass(frozen=True, slots=True)
class JobFault:
    """The failures of a job.

    Attributes:
        kind: the class of the latest error.
        since_s: when the job began to fail, in seconds since the Unix epoch.
        latest_s: when it failed last.
    """

    kind: str
    since_s: float
    latest_s: float


class Supervisor:
    """Runs jobs until they end. A job that raises is restarted; the delay grows while it keeps failing soon."""

    def __init__(self) -> None:
        self._faults: dict[str, JobFault] = {}
        self._stopped = asyncio.Event()

    def fault(self, name: str) -> JobFault | None:
        """Return the recent failures of a job; None if it is healthy."""
        fault = self._faults.get(name)
        return fault if fault is not None and time.time() - fault.latest_s < _FAULT_LASTS_S else None

    def start_task(self, name: str, job: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Run a job on the event loop."""
        return asyncio.create_task(self._run_task(name, job), name=name)

    def supervise(
        self,
        stack: AsyncExitStack,
        name: str,
        job: Callable[[], Awaitable[None]],
        stop: Callable[[], None] | None = None,
    ) -> None:
        """Run a job until the stack is left, which stops the job, waits for its end and lets no job restart.

        Args:
            stack: stops the job.
            name: the name of the job.
            job: the work.
            stop: ends the job; None: it is cancelled.
        """
        task = self.start_task(name, job)
        stack.push_async_callback(asyncio.wait, [task])
        stack.callback(stop or task.cancel)
        stack.callback(self.stop)

    def stop(self) -> None:
        """Restart no job from now on."""
        self._stopped.set()

    async def _run_task(self, name: str, job: Callable[[], Awaitable[None]]) -> None:
        backoff = Backoff(_FIRST_RESTART_DELAY_S, _LONGEST_RESTART_DELAY_S)
        while not self._stopped.is_set():
            began_at = time.monotonic()
            try:
                await job()
            except _NO_FAILURES:
                raise
            except BaseException as error:  # noqa: BLE001 - whatever it was, the work has to go on
                if time.monotonic() - began_at > _LONGEST_RESTART_DELAY_S:  # it was healthy for a while
                    backoff.reset()
                wait_s = backoff.next_s()
                self._note(name, error, wait_s)
                await self._rest(wait_s)
            else:
                return

    async def _rest(self, longest_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                await self._stopped.wait()

    def _note(self, name: str, error: BaseException, wait_s: float) -> None:
        before, now_s = self.fault(name), time.time()
        self._faults[name] = JobFault(type(error).__name__, before.since_s if before else now_s, now_s)
        frames = [f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
        _log.error("background work failed", job=name, kind=type(error).__name__, frames=frames[-6:], retry_s=wait_s)
        _log.debug("background work failed, in full", job=name, exc_info=error)
