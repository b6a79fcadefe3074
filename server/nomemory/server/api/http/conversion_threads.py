"""Threads for the JSON conversion of large messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

_LARGE_BYTES: Final = 65_536
"""Messages above this size are converted in threads. Smaller messages block the event loop for a few milliseconds."""
_THREADS: Final = 2
"""Number of threads. Conversions hold the global interpreter lock, so more threads would slow down the event loop."""
_Result = TypeVar("_Result")


class ConversionThreads:
    """Converts large messages between JSON and protobuf in threads, and small messages in the event loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "json")

    async def run(self, size_bytes: int, convert: Callable[[], _Result]) -> _Result:
        """Run the conversion of a message that has `size_bytes` bytes, and return the result."""
        if size_bytes <= _LARGE_BYTES:
            return convert()
        return await asyncio.get_running_loop().run_in_executor(self._threads, convert)
