"""Threads in which large messages are converted from and to JSON, so that the event loop serves other requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

_LARGE_BYTES: Final = 65_536
"""A message up to this size is converted within a few milliseconds, in the event loop."""
_THREADS: Final = 2
"""The conversion is Python code: more threads would only take the interpreter's lock from the event loop."""
_Result = TypeVar("_Result")


class ConversionThreads:
    """Runs conversions, those of large messages in threads."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "json")

    async def run(self, size_bytes: int, convert: Callable[[], _Result]) -> _Result:
        """Return what a conversion returns.

        Args:
            size_bytes: of what is converted.
            convert: the conversion.
        """
        if size_bytes <= _LARGE_BYTES:
            return convert()
        return await asyncio.get_running_loop().run_in_executor(self._threads, convert)
