"""Decide whether the evidence answers the question, by the estimated probability that it does."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.recall.model.memory_view import (
    Verdict,
)
from nomemory.recall.model.note import Note, NoteKind, note
from nomemory.recall.model.sufficiency import EnoughRule, Sufficiency


@dataclass(frozen=True, slots=True)
class Ruling:
    """A verdict, why, and the probability that was enough; None: it did not decide."""

    verdict: Verdict
    reason: Note
    enough: float | None = None


def own_verdict(said: Verdict | None, *, cited: bool, contradictory: bool) -> Verdict | None:
    """Return the verdict of a synthesiser as far as it fits; None: the rules are to decide.

    Args:
        said: what it says; None: nothing.
        cited: whether a statement of its own holds.
        contradictory: whether a conflict of its own holds.
    """
    if said is Verdict.INSUFFICIENT:
        return said
    if contradictory:
        return Verdict.CONFLICTING
    return said if said is Verdict.SUPPORTED and cited else None


def decide(
    sufficiency: Sufficiency | None, rule: EnoughRule, *, cited: bool, contradictory: bool, named: bool
) -> Ruling:
    """Decide.

    Args:
        sufficiency: how likely the log is to answer; None where no search says.
        rule: from when on that is enough.
        cited: whether the view has a statement of which not all was taken back.
        contradictory: whether statements contradict each other.
        named: whether speakers have names.
    """
    if not cited:
        return Ruling(Verdict.INSUFFICIENT, note(NoteKind.NO_STATEMENT))
    if contradictory:
        return Ruling(Verdict.CONFLICTING, note(NoteKind.CONFLICT))
    if sufficiency is None:
        return Ruling(Verdict.SUPPORTED, note(NoteKind.SUFFICIENCY_UNKNOWN))
    estimate, enough = sufficiency.probability, rule.least(sufficiency, named=named)
    verdict, does = (Verdict.SUPPORTED, "") if estimate >= enough else (Verdict.INSUFFICIENT, "do not ")
    return Ruling(verdict, note(NoteKind.SUFFICIENCY_ESTIMATED, does=does, estimate=estimate, enough=enough), enough)
