"""Read-your-writes: wait until an index has applied a write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from nomemory.server.faults import Fault, Reason
from nomemory.spans.span import start_child_span


async def wait_until_applied(
    is_applied: Callable[[], Awaitable[bool]], *, name: str, timeout_s: float, poll_s: float
) -> None:
    """Poll an index until it has applied a write. The index is polled, because another process may write to the index.

    Raises:
        Fault: INDEX_LAGGING, if the index has not applied the write after `timeout_s` seconds.
    """
    if await is_applied():
        return
    deadline = asyncio.get_running_loop().time() + timeout_s
    with start_child_span(f"wait for the {name}"):
        while not await is_applied():
            if asyncio.get_running_loop().time() >= deadline:
                raise Fault(
                    Reason.ERROR_REASON_INDEX_LAGGING, f"the {name} has not applied this write yet: retry later"
                )
            await asyncio.sleep(poll_s)
