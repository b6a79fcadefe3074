"""Health check of a message log in PostgreSQL: the server reports NOT_SERVING while the database does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final, Protocol

from nomemory.server.faults import Fault
from nomemory.server.runtime.active_faults import MESSAGE_LOG, UNREACHABLE, StandingFaults
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.log_store import log_store
from nomemory.server.store.protocol import LogReader

_INTERVAL_S: Final = 2.0
"""Seconds between two checks, and the time limit of each."""


class SetServingStatus(Protocol):
    """Sets the health status of all services."""

    async def __call__(self, *, is_serving: bool) -> None:
        """Set it."""


HealthCheck = Callable[[SetServingStatus], Coroutine[Any, Any, None]]
"""Checks again and again until it is cancelled, and sets the status when it changes."""


def log_health_check(
    settings: Settings, directory: DataDirectory, faults: StandingFaults, stack: AsyncExitStack
) -> HealthCheck | None:
    """Return the health check of the message log; None if the log is a file in the data directory.

    Args:
        settings: the configuration.
        directory: the server's data directory.
        faults: gets the fault `message-log` while the database does not answer.
        stack: closes the check's connections.
    """
    if settings.server.database_url is None:
        return None
    log = log_store(settings, directory).reading(None, stack)
    return partial(check_log, log, faults, _INTERVAL_S)


async def check_log(log: LogReader, faults: StandingFaults, interval_s: float, set_status: SetServingStatus) -> None:
    """Query the log at an interval, in seconds, which is also the time limit of each query."""
    is_healthy = True
    while True:
        failure = await _query_failure(log, interval_s)
        if failure:
            faults.stand(MESSAGE_LOG, UNREACHABLE, failure)
        else:
            faults.clear(MESSAGE_LOG)
        if is_healthy is bool(failure):
            is_healthy = not failure
            await set_status(is_serving=is_healthy)
        await asyncio.sleep(interval_s)


async def _query_failure(log: LogReader, timeout_s: float) -> str:
    """Return why the log does not answer; an empty string if it does."""
    query = asyncio.ensure_future(log.sequence())
    try:
        answered, _ = await asyncio.wait({query}, timeout=timeout_s)
    finally:
        query.cancel()  # a halted database may delay the cancellation, too: nobody waits for it
    if not answered:
        query.add_done_callback(_retrieve_error)
        return f"no answer within {timeout_s:g} s"
    try:
        query.result()
    except Fault as fault:
        return f"{fault.message}: {fault.metadata.get('cause', '')}"
    return ""


def _retrieve_error(query: asyncio.Future[int]) -> None:
    """Retrieve the error of an abandoned query, so that asyncio does not log it as never retrieved."""
    if not query.cancelled():
        query.exception()
