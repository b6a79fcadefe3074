"""Keeps replies under the size that clients accept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from nomemory.server.message import LoggedMessage

_OVERHEAD = 64
"""Bytes that a message takes in a reply beyond its own: framing, a score, an id in a list."""

Beside = Callable[[LoggedMessage], int]
"""Returns the most bytes that a reply holds for a message beside the message itself, such as its highlight."""


def nothing_beside(_message: LoggedMessage) -> int:
    """Return 0: the reply holds only the message."""
    return 0


def fitting(messages: Iterable[LoggedMessage], budget_bytes: int, beside: Beside = nothing_beside) -> int:
    """Count how many of the messages fit, from the first on; at least one, if there is one."""
    return _within((len(message.wire) + beside(message) for message in messages), budget_bytes)


def fitting_wires(wires: Sequence[bytes], budget_bytes: int) -> int:
    """Count as `fitting` does, of messages as bytes."""
    return _within(map(len, wires), budget_bytes)


def _within(sizes: Iterable[int], budget_bytes: int) -> int:
    count, total = 0, 0
    for size in sizes:
        total += size + _OVERHEAD
        if total > budget_bytes and count:
            break
        count += 1
    return count
