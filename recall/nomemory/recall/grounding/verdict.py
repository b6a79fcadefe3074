"""Decide whether the evidence answers the question, based on the estimated probability of an answer."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.recall.model.memory_view import (
    Verdict,
)
from nomemory.recall.model.note import Note, NoteKind, create_note
from nomemory.recall.model.sufficiency import SufficiencyThresholds


@dataclass(frozen=True, slots=True)
class VerdictDecision:
    """A verdict with the reason for it.

    `sufficiency_threshold` is None if the verdict does not depend on the threshold.
    """

    verdict: Verdict
    reason: Note
    sufficiency_threshold: float | None = None


def accept_model_verdict(
    verdict: Verdict | None, *, has_valid_statement: bool, has_contradiction: bool
) -> Verdict | None:
    """Return a chat model's verdict if it is consistent with the verified statements, otherwise None.

    A verified conflict changes the verdict to CONFLICTING, unless the model's verdict is INSUFFICIENT.

    Args:
        verdict: the chat model's verdict; None if the model gave no valid verdict.
        has_valid_statement: whether a verified statement cites a message that was not retracted.
        has_contradiction: whether one of the model's conflicts was verified.
    """
    if verdict is Verdict.INSUFFICIENT:
        return verdict
    if has_contradiction:
        return Verdict.CONFLICTING
    return verdict if verdict is Verdict.SUPPORTED and has_valid_statement else None


def decide_verdict(
    estimate: float | None,
    thresholds: SufficiencyThresholds,
    *,
    has_valid_statement: bool,
    has_contradiction: bool,
    is_corrected: bool = False,
) -> VerdictDecision:
    """Decide the verdict from the estimated probability of an answer, without a chat model.

    Args:
        estimate: the calibrated probability that the message log answers the question; None if unknown.
        thresholds: the minimum probabilities for SUPPORTED and POSSIBLE.
        has_valid_statement: whether the view has a statement that was not retracted.
        has_contradiction: whether statements contradict each other.
        is_corrected: whether the view has a correction of an earlier answer to the question.
    """
    if not has_valid_statement:
        return VerdictDecision(Verdict.INSUFFICIENT, create_note(NoteKind.NO_STATEMENT))
    if has_contradiction:
        return VerdictDecision(Verdict.CONFLICTING, create_note(NoteKind.CONFLICT))
    if estimate is None:
        return VerdictDecision(Verdict.POSSIBLE, create_note(NoteKind.SUFFICIENCY_UNKNOWN))
    return _decide_by_estimate(estimate, thresholds, is_corrected=is_corrected)


def _decide_by_estimate(estimate: float, thresholds: SufficiencyThresholds, *, is_corrected: bool) -> VerdictDecision:
    if estimate >= thresholds.supported:
        return _build_decision(Verdict.SUPPORTED, "the quotes probably answer the question", estimate, thresholds)
    if estimate >= thresholds.possible:
        return _build_decision(Verdict.POSSIBLE, "the quotes may answer the question", estimate, thresholds)
    if is_corrected:
        return VerdictDecision(Verdict.POSSIBLE, create_note(NoteKind.CORRECTED))
    return _build_decision(
        Verdict.INSUFFICIENT, "the messages probably do not answer the question", estimate, thresholds
    )


def _build_decision(
    verdict: Verdict, answers: str, estimate: float, thresholds: SufficiencyThresholds
) -> VerdictDecision:
    reason = create_note(
        NoteKind.SUFFICIENCY_ESTIMATED, answers=answers, estimate=estimate, threshold=thresholds.supported
    )
    return VerdictDecision(verdict, reason, thresholds.supported)
