"""The threads that run expensive reads, so that the event loop stays free for short ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class ReadThreads:
    """A bounded pool of threads for reads.

    SQLite, Tantivy and numpy release the interpreter's lock while they work. A function that is mostly Python gains
    nothing here.

    Args:
        size: number of threads.
    """

    def __init__(self, size: int) -> None:
        self._executor = ThreadPoolExecutor(size, "read")

    async def run(
        self, function: Callable[_Parameters, _Result], *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> _Result:
        """Run a blocking function in a thread and return its result.

        A cancelled caller stops waiting at once. The function itself runs to its end, because a thread cannot be
        interrupted.
        """
        return await asyncio.get_running_loop().run_in_executor(self._executor, partial(function, *args, **kwargs))

    async def close(self) -> None:
        """Wait for the functions that run, and drop those that have not begun."""
        await asyncio.to_thread(self._executor.shutdown, cancel_futures=True)
