"""Supervision of background jobs, which are restarted with backoff when they fail."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

from nomemory.server.runtime.backoff import Backoff
from nomemory.server.runtime.structured_logs import get_logger

_FIRST_RESTART_DELAY_S, _MAX_RESTART_DELAY_S = 0.2, 10.0
_FAULT_LASTS_S = 30.0
"""Time for which a job counts as failing after its latest failure, in seconds."""

_EXIT_EXCEPTIONS = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)
"""Exceptions that end a job without a restart. All others are failures, including Rust panics (BaseException)."""

_log = get_logger("supervisor")


@dataclass(frozen=True, slots=True)
class JobFault:
    """The recent failures of a background job.

    Attributes:
        kind: the exception class of the latest failure.
        since_s: the time of the first recent failure, in seconds since the Unix epoch.
        latest_s: the time of the latest failure, in seconds since the Unix epoch.
    """

    kind: str
    since_s: float
    latest_s: float


class Supervisor:
    """Runs background jobs and restarts those that fail, with exponential backoff."""

    def __init__(self) -> None:
        self._faults: dict[str, JobFault] = {}
        self._stopped = asyncio.Event()

    def fault(self, name: str) -> JobFault | None:
        """Return the recent failures of a background job, or None if the job is healthy."""
        fault = self._faults.get(name)
        return fault if fault is not None and time.time() - fault.latest_s < _FAULT_LASTS_S else None

    def start_task(self, name: str, job: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Run a background job in a new task, and restart it when it fails."""
        return asyncio.create_task(self._run_task(name, job), name=name)

    def supervise(
        self,
        stack: AsyncExitStack,
        name: str,
        job: Callable[[], Awaitable[None]],
        stop: Callable[[], None] | None = None,
    ) -> None:
        """Run a background job until the stack exits.

        On exit, the stack disables restarts, stops the job, and waits for its end.

        Args:
            stack: the exit stack that stops the job.
            name: the name of the job in logs and faults.
            job: the function to run and to restart after an error.
            stop: a function that asks the job to return; None cancels the job.
        """
        task = self.start_task(name, job)
        stack.push_async_callback(asyncio.wait, [task])
        stack.callback(stop or task.cancel)
        stack.callback(self.stop)

    def stop(self) -> None:
        """Disable restarts."""
        self._stopped.set()

    async def _run_task(self, name: str, job: Callable[[], Awaitable[None]]) -> None:
        backoff = Backoff(_FIRST_RESTART_DELAY_S, _MAX_RESTART_DELAY_S)
        while not self._stopped.is_set():
            began_at = time.monotonic()
            try:
                await job()
            except _EXIT_EXCEPTIONS:
                raise
            except BaseException as error:  # noqa: BLE001 - a Rust panic must not end the job
                if time.monotonic() - began_at > _MAX_RESTART_DELAY_S:  # the job was healthy for a while
                    backoff.reset()
                delay_s = backoff.compute_next_delay_s()
                self._record_failure(name, error, delay_s)
                await self._wait_for_restart(delay_s)
            else:
                return

    async def _wait_for_restart(self, delay_s: float) -> None:
        """Wait for a delay, or until restarts are disabled."""
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._stopped.wait()

    def _record_failure(self, name: str, error: BaseException, delay_s: float) -> None:
        before, now_s = self.fault(name), time.time()
        self._faults[name] = JobFault(type(error).__name__, before.since_s if before else now_s, now_s)
        frames = [f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
        _log.error("background job failed", job=name, kind=type(error).__name__, frames=frames[-6:], retry_s=delay_s)
        _log.debug("background job failed: details", job=name, exc_info=error)
