"""Quality metrics of memory views, based on labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from evaluation.labeled_file import CURRENT, Question
from nomemory.v1 import recall_service_pb2 as pb

_SUPPORTED: Final = "SUPPORTED"
_POSSIBLE: Final = "POSSIBLE"
Cited = frozenset[str]
"""Ids of the messages that a statement cites."""


@dataclass(frozen=True, slots=True)
class ViewCitations:
    """Ids of the messages that a memory view cites.

    Attributes:
        statements: cited message ids of each statement, in view order.
        conflicts: cited message ids of the statement pairs that are reported as contradictory.
    """

    statements: tuple[Cited, ...] = ()
    conflicts: tuple[tuple[Cited, Cited], ...] = ()


@dataclass(frozen=True, slots=True)
class LabeledView:
    """A labeled question and the memory view that answers it."""

    question: Question
    view: ViewCitations


def read_view(reply: pb.RecallResponse) -> ViewCitations:
    """Return the citations of a reply, section by section."""
    sections = reply.memory_view
    statements = (*sections.preferences, *sections.profile, *sections.constraints)
    return ViewCitations(
        tuple(map(_collect_cited_ids, statements)),
        tuple(
            (_collect_cited_ids(conflict.earlier), _collect_cited_ids(conflict.later)) for conflict in reply.conflicts
        ),
    )


def compute_view_metrics(labeled_views: Sequence[LabeledView]) -> dict[str, float]:
    """Return the metrics of memory views, all from 0 to 1; undefined metrics are omitted.

    The questions must be answerable and have required facts. `view_recall`: share of the required facts whose evidence
    a statement cites. `view_full`: share of the questions for which evidence of all required facts is cited.
    `view_precision`: share of the statements that cite evidence or a message with an outdated value. `current_first`:
    share of the questions about a changed value whose first citation of the new value precedes all citations of the
    old one.
    """
    cited_facts = [[_is_cited(needed, item.view) for needed in item.question.needed_facts] for item in labeled_views]
    relevant = [_is_relevant(cited, item.question) for item in labeled_views for cited in item.view.statements]
    changed = [item for item in labeled_views if _has_outdated_evidence(item.question)]
    shares: dict[str, Sequence[bool]] = {
        "view_recall": [is_cited for facts in cited_facts for is_cited in facts],
        "view_full": [all(facts) for facts in cited_facts],
        "view_precision": relevant,
        "current_first": [_ranks_current_evidence_first(item) for item in changed],
    }
    return {name: sum(values) / len(values) for name, values in shares.items() if values}


def compute_conflict_metrics(labeled_views: Sequence[LabeledView]) -> dict[str, float]:
    """Return the contradiction metrics of labeled questions.

    `contradictions`: number of questions with contradictory evidence. `contradictions_found`: number of these questions
    for which a reported pair cites both sides. `contradictions_false`: false positive rate, the share of questions
    without contradictory evidence for which a pair is reported.
    """
    contradicting = [item for item in labeled_views if item.question.is_contradictory]
    others = [bool(item.view.conflicts) for item in labeled_views if not item.question.is_contradictory]
    metrics = {"contradictions": float(len(contradicting))}
    if contradicting:
        metrics["contradictions_found"] = float(sum(map(_cites_both_sides, contradicting)))
    if others:
        metrics["contradictions_false"] = sum(others) / len(others)
    return metrics


def is_recall_correct(labeled_view: LabeledView, verdict: str) -> bool:
    """Return whether the verdict and the statements of a recall are correct.

    The verdict must equal the label; POSSIBLE counts as SUPPORTED, because it shows an answer. For contradictory
    evidence, a reported pair must cite both sides. For any other question, the statements must cite all required facts,
    and the current value must precede the outdated one.
    """
    question = labeled_view.question
    verdict = _SUPPORTED if verdict == _POSSIBLE else verdict
    if not question.is_answerable or verdict != question.verdict:
        return verdict == question.verdict
    if question.is_contradictory:
        return _cites_both_sides(labeled_view)
    is_full = all(_is_cited(needed, labeled_view.view) for needed in question.needed_facts)
    return is_full and (not _has_outdated_evidence(question) or _ranks_current_evidence_first(labeled_view))


def _collect_cited_ids(statement: pb.Statement) -> Cited:
    return frozenset(citation.message_id for citation in statement.citations)


def _is_cited(needed: frozenset[str], view: ViewCitations) -> bool:
    return any(needed & cited for cited in view.statements)


def _is_relevant(cited: Cited, question: Question) -> bool:
    return bool(cited & (question.evidence | question.outdated_evidence))


def _has_outdated_evidence(question: Question) -> bool:
    return question.category == CURRENT and bool(question.outdated_evidence)


def _ranks_current_evidence_first(labeled_views: LabeledView) -> bool:
    question, statements = labeled_views.question, labeled_views.view.statements
    new = _find_first_citing_statement(statements, frozenset[str]().union(*question.needed_facts))
    old = _find_first_citing_statement(statements, question.outdated_evidence)
    return new is not None and (old is None or new < old)


def _find_first_citing_statement(statements: Iterable[Cited], ids: frozenset[str]) -> int | None:
    return next((index for index, cited in enumerate(statements) if cited & ids), None)


def _cites_both_sides(labeled_views: LabeledView) -> bool:
    needed = labeled_views.question.needed_facts
    return any(
        all(item & (earlier | later) for item in needed) and earlier != later
        for earlier, later in labeled_views.view.conflicts
    )
