"""Tests that a server reports an unresponsive log, even if its health check hangs."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import cast

from nomemory.server.runtime.active_faults import MESSAGE_LOG, ActiveFaults
from nomemory.server.runtime.wiring.log_health import check_log
from nomemory.server.store.protocol import LogReader


class HaltedLog:
    """A log that can be halted; a halted read cannot be cancelled."""

    def __init__(self) -> None:
        self.is_halted, self.goes_on = False, asyncio.Event()

    async def read_sequence(self) -> int:
        while self.is_halted and not self.goes_on.is_set():
            with suppress(asyncio.CancelledError):
                await self.goes_on.wait()
        return 1


async def test_halted_log_is_reported_while_its_health_check_hangs() -> None:
    log, faults = HaltedLog(), ActiveFaults()
    reports: asyncio.Queue[bool] = asyncio.Queue()

    async def say(*, is_serving: bool) -> None:
        await reports.put(is_serving)

    watching = asyncio.ensure_future(check_log(cast("LogReader", log), faults, 0.01, say))
    log.is_halted = True
    assert await reports.get() is False
    assert [item.component for item in faults.list_active_faults()] == [MESSAGE_LOG]
    log.goes_on.set()
    assert await reports.get() is True
    assert not faults.list_active_faults()
    watching.cancel()
