"""Work that goes on to its end, whether or not its caller waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

_Result = TypeVar("_Result")

_GOING_ON: Final = set[asyncio.Task[Any]]()
"""The event loop alone does not keep a task."""


async def unbroken(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Return what work results in. If the caller is cancelled meanwhile, the work goes on."""
    task = asyncio.create_task(work)
    _GOING_ON.add(task)
    task.add_done_callback(_GOING_ON.discard)
    return await asyncio.shield(task)
