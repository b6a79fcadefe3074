"""Read a message and its neighbors in the message log."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from nomemory.server.faults import Fault, Reason
from nomemory.server.search.reply_budget import count_fitting_encoded_messages
from nomemory.server.store.protocol import LogReader
from nomemory.server.store.results import EncodedNeighbors


@dataclass(frozen=True, slots=True)
class Neighborhood:
    """A message (the anchor) and its neighbors, oldest first, as encoded ChatMessages."""

    wires: list[bytes]
    anchor_index: int
    truncated_before: bool
    truncated_after: bool


async def read_neighborhood(
    log: LogReader, user_id: str, message_id: str, *, before: int, after: int, budget_bytes: int
) -> Neighborhood:
    """Return a message and its neighbors.

    If the neighbors exceed the byte budget, the most distant neighbors are omitted.

    Raises:
        Fault: MESSAGE_NOT_FOUND.
    """
    neighbors = await log.read_encoded_neighbors(user_id, message_id, before, after)
    if neighbors is None:
        raise Fault(Reason.ERROR_REASON_MESSAGE_NOT_FOUND, "no such message for this user")
    older, newer = _count_fitting_sides(neighbors, budget_bytes)
    return Neighborhood(
        [*neighbors.before[len(neighbors.before) - older :], neighbors.anchor, *neighbors.after[:newer]],
        older,
        truncated_before=older < len(neighbors.before),
        truncated_after=newer < len(neighbors.after),
    )


def _count_fitting_sides(neighbors: EncodedNeighbors, budget_bytes: int) -> tuple[int, int]:
    """Return how many messages before and after the anchor fit into the budget, nearest messages first."""
    wires = [*neighbors.before, neighbors.anchor, *neighbors.after]
    if count_fitting_encoded_messages(wires, budget_bytes) == len(wires):
        return len(neighbors.before), len(neighbors.after)
    pairs = zip_longest(reversed(neighbors.before), neighbors.after)
    outward = [(is_newer, wire) for pair in pairs for is_newer, wire in enumerate(pair) if wire is not None]
    count = count_fitting_encoded_messages([neighbors.anchor, *(wire for _, wire in outward)], budget_bytes) - 1
    newer = sum(is_newer for is_newer, _ in outward[:count])
    return count - newer, newer
