"""Decide whether the evidence answers the question, by the estimated probability that it does."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.recall.model.memory_view import (
    Verdict,
)
from nomemory.recall.model.note import Note, NoteKind, note
from nomemory.recall.model.sufficiency import SufficiencyThresholds


@dataclass(frozen=True, slots=True)
class VerdictDecision:
    """A verdict with its reason and the SUPPORTED threshold; None if the threshold was not used."""

    verdict: Verdict
    reason: Note
    sufficiency_threshold: float | None = None


def model_verdict(verdict: Verdict | None, *, cited: bool, contradictory: bool) -> Verdict | None:
    """Return a model's verdict if it is consistent with the verified statements; None to use the rules.

    Args:
        verdict: the model's verdict, or None.
        cited: whether one of the model's statements was verified.
        contradictory: whether one of the model's conflicts was verified.
    """
    if verdict is Verdict.INSUFFICIENT:
        return verdict
    if contradictory:
        return Verdict.CONFLICTING
    return verdict if verdict is Verdict.SUPPORTED and cited else None


def decide(
    estimate: float | None,
    thresholds: SufficiencyThresholds,
    *,
    cited: bool,
    contradictory: bool,
    corrected: bool = False,
) -> VerdictDecision:
    """Return the rule-based verdict.

    Args:
        estimate: the calibrated probability that the message log answers the question; None if unknown.
        thresholds: the host's thresholds.
        cited: whether the view has a statement that was not retracted.
        contradictory: whether statements contradict each other.
        corrected: whether the view has a correction of an earlier answer to the question.
    """
    if not cited:
        return VerdictDecision(Verdict.INSUFFICIENT, note(NoteKind.NO_STATEMENT))
    if contradictory:
        return VerdictDecision(Verdict.CONFLICTING, note(NoteKind.CONFLICT))
    if estimate is None:
        return VerdictDecision(Verdict.POSSIBLE, note(NoteKind.SUFFICIENCY_UNKNOWN))
    return _decide_by_estimate(estimate, thresholds, corrected=corrected)


def _decide_by_estimate(estimate: float, thresholds: SufficiencyThresholds, *, corrected: bool) -> VerdictDecision:
    if estimate >= thresholds.supported:
        return _estimated_decision(Verdict.SUPPORTED, "the quotes probably answer the question", estimate, thresholds)
    if estimate >= thresholds.possible:
        return _estimated_decision(Verdict.POSSIBLE, "the quotes may answer the question", estimate, thresholds)
    if corrected:
        return VerdictDecision(Verdict.POSSIBLE, note(NoteKind.CORRECTED))
    return _estimated_decision(
        Verdict.INSUFFICIENT, "the messages probably do not answer the question", estimate, thresholds
    )


def _estimated_decision(
    verdict: Verdict, answers: str, estimate: float, thresholds: SufficiencyThresholds
) -> VerdictDecision:
    reason = note(NoteKind.SUFFICIENCY_ESTIMATED, answers=answers, estimate=estimate, threshold=thresholds.supported)
    return VerdictDecision(verdict, reason, thresholds.supported)
