"""Read the messages around an anchor."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from nomemory.server.faults import Fault, Reason
from nomemory.server.search.reply_budget import count_fitting_wires
from nomemory.server.store.protocol import LogReader
from nomemory.server.store.results import EncodedNeighbors


@dataclass(frozen=True, slots=True)
class Neighborhood:
    """The anchor and what stands around it, oldest first, as the bytes of ChatMessages."""

    wires: list[bytes]
    anchor_index: int
    truncated_before: bool
    truncated_after: bool


async def read_neighborhood(
    log: LogReader, user_id: str, message_id: str, *, before: int, after: int, budget_bytes: int
) -> Neighborhood:
    """Read the neighbours of a message. What does not fit is left out from the far ends.

    Raises:
        Fault: MESSAGE_NOT_FOUND.
    """
    around = await log.encoded_neighbors(user_id, message_id, before, after)
    if around is None:
        raise Fault(Reason.ERROR_REASON_MESSAGE_NOT_FOUND, "no such message for this user")
    older, newer = _fitting(around, budget_bytes)
    return Neighborhood(
        [*around.before[len(around.before) - older :], around.anchor, *around.after[:newer]],
        older,
        truncated_before=older < len(around.before),
        truncated_after=newer < len(around.after),
    )


def _fitting(around: EncodedNeighbors, budget_bytes: int) -> tuple[int, int]:
    """Count how many on each side fit, from the anchor outward, one of each side in turn."""
    wires = [*around.before, around.anchor, *around.after]
    if count_fitting_wires(wires, budget_bytes) == len(wires):
        return len(around.before), len(around.after)
    pairs = zip_longest(reversed(around.before), around.after)
    outward = [(is_newer, wire) for pair in pairs for is_newer, wire in enumerate(pair) if wire is not None]
    fits = count_fitting_wires([around.anchor, *(wire for _, wire in outward)], budget_bytes) - 1
    newer = sum(is_newer for is_newer, _ in outward[:fits])
    return fits - newer, newer
