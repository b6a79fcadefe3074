"""A health check of the message log in PostgreSQL. The server reports NOT_SERVING while the database is unavailable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final, Protocol

from nomemory.server.faults import Fault
from nomemory.server.runtime.active_faults import MESSAGE_LOG, UNREACHABLE, ActiveFaults
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.log_store import choose_log_store
from nomemory.server.store.protocol import LogReader

_INTERVAL_S: Final = 2.0
"""Interval and time limit of the checks, in seconds."""


class ServingStatusSetter(Protocol):
    """A function that sets the health status of all services."""

    async def __call__(self, *, is_serving: bool) -> None:
        """Set the health status to SERVING or NOT_SERVING."""


HealthCheck = Callable[[ServingStatusSetter], Coroutine[Any, Any, None]]
"""A health check that runs until it is cancelled and updates the serving status."""


def log_health_check(
    settings: Settings, directory: DataDirectory, faults: ActiveFaults, stack: AsyncExitStack
) -> HealthCheck | None:
    """Return the health check of the message log, or None if the message log is a SQLite file.

    The check reports the fault `message-log` to `faults` while the database is unavailable.
    """
    if settings.server.database_url is None:
        return None
    log = choose_log_store(settings, directory).open_reader(None, stack)
    return partial(check_log, log, faults, _INTERVAL_S)


async def check_log(log: LogReader, faults: ActiveFaults, interval_s: float, set_status: ServingStatusSetter) -> None:
    """Query the message log every `interval_s` seconds, and set the serving status on each change.

    The check fails if a query takes longer than `interval_s` seconds.
    """
    is_healthy = True
    while True:
        failure = await _find_query_failure(log, interval_s)
        if failure:
            faults.report(MESSAGE_LOG, UNREACHABLE, failure)
        else:
            faults.clear(MESSAGE_LOG)
        if is_healthy is bool(failure):
            is_healthy = not failure
            await set_status(is_serving=is_healthy)
        await asyncio.sleep(interval_s)


async def _find_query_failure(log: LogReader, timeout_s: float) -> str:
    """Query the message log. Return the reason for a failure, or an empty string if the query succeeds."""
    query = asyncio.ensure_future(log.read_sequence())
    try:
        answered, _ = await asyncio.wait({query}, timeout=timeout_s)
    finally:
        query.cancel()  # do not await the cancellation: a hanging database may delay it
    if not answered:
        query.add_done_callback(_retrieve_error)
        return f"no answer within {timeout_s:g} s"
    try:
        query.result()
    except Fault as fault:
        return f"{fault.message}: {fault.metadata.get('cause', '')}"
    return ""


def _retrieve_error(query: asyncio.Future[int]) -> None:
    """Retrieve the exception of an abandoned query, so that asyncio does not log it as never retrieved."""
    if not query.cancelled():
        query.exception()
