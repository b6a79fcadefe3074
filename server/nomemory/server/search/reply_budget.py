"""Limit responses to the maximum size that clients accept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from nomemory.server.message import LoggedMessage

_OVERHEAD = 64
"""Bytes per message in a response in addition to the message: framing, a score, an id in a list."""

ExtraBytes = Callable[[LoggedMessage], int]
"""Returns the maximum size of the data that accompanies a message in a response, such as its highlights."""


def count_no_extra_bytes(_message: LoggedMessage) -> int:
    """Return 0, because the response contains only the message."""
    return 0


def count_fitting_messages(
    messages: Iterable[LoggedMessage], budget_bytes: int, extra_bytes: ExtraBytes = count_no_extra_bytes
) -> int:
    """Return how many of the first messages fit into the budget; at least 1, unless there are no messages."""
    return _count_within_budget((len(message.wire) + extra_bytes(message) for message in messages), budget_bytes)


def count_fitting_encoded_messages(wires: Sequence[bytes], budget_bytes: int) -> int:
    """Return how many of the first encoded messages fit into the budget; at least 1, unless there are no messages."""
    return _count_within_budget(map(len, wires), budget_bytes)


def _count_within_budget(sizes: Iterable[int], budget_bytes: int) -> int:
    count, total = 0, 0
    for size in sizes:
        total += size + _OVERHEAD
        if total > budget_bytes and count:
            break
        count += 1
    return count
