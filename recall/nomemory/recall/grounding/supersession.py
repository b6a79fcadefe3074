"""Find which statement superseded which: later, by the same speaker, close in meaning, with rare terms in common."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from nomemory.recall.model.evidence import Relation

NEAR: Final = 2.25
"""Standard deviations that two messages must lie nearer to each other than what was found usually does."""


SHARED: Final = 0.25
"""Share of their words that they must have in common. With less, statements that still hold are marked, too."""


def superseded(relations: Iterable[Relation], cited: Collection[str]) -> dict[str, str]:
    """Return the id of the latest message that says anew what an earlier one says, by the earlier one's id.

    Args:
        relations: in the order of the later message.
        cited: the messages of the view; others supersede nothing.
    """
    alike = [one for one in relations if one.nearness >= NEAR and one.shared >= SHARED]
    return {one.earlier: one.later for one in alike if one.earlier in cited and one.later in cited}
