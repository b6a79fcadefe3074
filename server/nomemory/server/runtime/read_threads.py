"""A thread pool for expensive reads, which would otherwise block the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class ReadThreads:
    """A thread pool for reads that mostly run in SQLite, Tantivy or numpy.

    These libraries release the GIL. A function that is mostly Python code gains nothing from a thread.

    Args:
        size: the number of threads.
    """

    def __init__(self, size: int) -> None:
        self._executor = ThreadPoolExecutor(size, "read")

    async def run(
        self, function: Callable[_Parameters, _Result], *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> _Result:
        """Run a blocking function in a thread and return its result.

        A cancelled call returns immediately, but its function continues to run in the thread.
        """
        return await asyncio.get_running_loop().run_in_executor(self._executor, partial(function, *args, **kwargs))

    async def close(self) -> None:
        """Wait for running functions to finish, and cancel the functions that have not started."""
        await asyncio.to_thread(self._executor.shutdown, cancel_futures=True)
