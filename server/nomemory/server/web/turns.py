"""Long replies become JSON one after the other, and others go between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

_LONG_BYTES: Final = 1 << 16
"""Up to here a reply becomes JSON within a fraction of a millisecond."""


class Turns:
    """Gives each long reply its turn. After it the loop looks at whatever else is ready."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def written(self, raw: bytes, write: Callable[[bytes], bytes]) -> bytes:
        """Return what writing a reply gives, which comes in the binary format."""
        if len(raw) <= _LONG_BYTES:
            return write(raw)
        async with self._turn:
            body = write(raw)
            await asyncio.sleep(0)
            return body
