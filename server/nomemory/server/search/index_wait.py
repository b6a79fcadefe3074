"""Let a read wait until its index has applied a write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from nomemory.server.faults import Fault, Reason
from nomemory.spans.span import span


async def wait_until(reached: Callable[[], Awaitable[bool]], *, name: str, timeout_s: float, poll_s: float) -> None:
    """Wait for an index. It is polled, so any process may write it.

    Raises:
        Fault: INDEX_LAGGING if it does not get there in time.
    """
    if await reached():
        return
    give_up = asyncio.get_running_loop().time() + timeout_s
    with span(f"wait for the {name}"):
        while not await reached():
            if asyncio.get_running_loop().time() >= give_up:
                raise Fault(Reason.ERROR_REASON_INDEX_LAGGING, f"the {name} has not applied this write yet")
            await asyncio.sleep(poll_s)
