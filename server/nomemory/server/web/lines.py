"""A body in lines."""

from __future__ import annotations

from collections.abc import AsyncIterator

from nomemory.server.faults import Fault, Reason


async def lines_of(parts: AsyncIterator[bytes], most: int) -> AsyncIterator[bytes]:
    """Return the lines of a body, each as soon as it is whole; blank ones are left out.

    Raises:
        Fault: REQUEST_TOO_LARGE, a line has more than so many bytes.
    """
    pending: list[bytes] = []
    size = 0
    async for part in parts:
        *whole, rest = part.split(b"\n")
        for line in whole:
            _refuse_long(size + len(line), most)
            joined = b"".join([*pending, line]).strip()
            pending, size = [], 0
            if joined:
                yield joined
        pending.append(rest)
        size += len(rest)
        _refuse_long(size, most)
    if last := b"".join(pending).strip():
        yield last


def _refuse_long(size: int, most: int) -> None:
    if size > most:
        raise Fault(Reason.ERROR_REASON_REQUEST_TOO_LARGE, f"a line is larger than {most} bytes")
