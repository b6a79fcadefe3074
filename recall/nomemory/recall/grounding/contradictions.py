"""Finds statements that cannot both hold at one time. It does not judge between them: both stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from nomemory.recall.grounding.attributes import Value, values
from nomemory.recall.grounding.changed_plans import overtakes
from nomemory.recall.grounding.polarity import Stance, stances
from nomemory.recall.grounding.quoted import Said, all_said
from nomemory.recall.model.memory_view import Conflict, Statement
from nomemory.recall.passages.reader import PassageReader

MAX_CONFLICTS = 10
"""Pairs that are given; the first statements of a view are the best."""


@dataclass(frozen=True, slots=True)
class _Read:
    """What was said, and what it says."""

    said: Said
    stances: tuple[Stance, ...]
    values: tuple[Value, ...]


def find_conflicts(statements: Sequence[Statement], reading: PassageReader) -> tuple[Conflict, ...]:
    """Return pairs of statements that contradict each other, the earlier one first; one pair for two messages."""
    read = [_Read(said, tuple(stances(said.text)), tuple(values(said))) for said in all_said(statements, reading)]
    found: dict[frozenset[str], Conflict] = {}
    for one, other in combinations(read, 2):
        messages = frozenset((one.said.message_id, other.said.message_id))
        if len(messages) == 1 or messages in found or one.said.speaker != other.said.speaker:
            continue
        earlier, later = sorted((one, other), key=_when)
        if _contradict(earlier, later):
            found[messages] = Conflict(earlier.said.statement, later.said.statement)
    return tuple(found.values())[:MAX_CONFLICTS]


def _when(read: _Read) -> tuple[float, str]:
    return read.said.ts.timestamp(), read.said.message_id


def _contradict(earlier: _Read, later: _Read) -> bool:
    return (
        any(one.contradicts(other) for one in earlier.stances for other in later.stances)
        or any(one.contradicts(other) for one in earlier.values for other in later.values)
        or overtakes(later.said, earlier.said)
    )
