"""Decides whether the evidence answers the question: by how likely it is that the log does. It takes nothing away."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.recall.model.memory_view import Verdict
from nomemory.recall.model.sufficiency import EnoughRule, Sufficiency


@dataclass(frozen=True, slots=True)
class Ruling:
    """A verdict, and in words why."""

    verdict: Verdict
    reason: str


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
        cited: whether the view has a statement.
        contradictory: whether statements contradict each other.
        named: whether speakers have names.
    """
    if not cited:
        return Ruling(Verdict.INSUFFICIENT, "no statement could be cited")
    if contradictory:
        return Ruling(Verdict.CONFLICTING, "what was said contradicts itself")
    if sufficiency is None:
        return Ruling(Verdict.SUPPORTED, "how likely it is that the quotes answer was not asked")
    figure = f"an estimate of {sufficiency.probability:.2f}, where {rule.least(sufficiency, named=named):.2f} is enough"
    if not rule.is_met(sufficiency, named=named):
        return Ruling(Verdict.INSUFFICIENT, f"the quotes probably do not answer: {figure}")
    return Ruling(Verdict.SUPPORTED, f"the quotes probably answer: {figure}")
