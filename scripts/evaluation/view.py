"""What a memory view is worth, judged by labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from evaluation.labelled_file import CURRENT, Question
from nomemory.v1 import recall_service_pb2 as pb

_SUPPORTED: Final = "SUPPORTED"
_POSSIBLE: Final = "POSSIBLE"
Cited = frozenset[str]
"""The ids of the messages that a statement cites."""


@dataclass(frozen=True, slots=True)
class View:
    """A memory view, as far as it is judged.

    Attributes:
        statements: what each statement cites, in the order of the view.
        conflicts: the pairs of statements that are said to contradict each other.
    """

    statements: tuple[Cited, ...] = ()
    conflicts: tuple[tuple[Cited, Cited], ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """A question with labels, and the view that was composed for it."""

    question: Question
    view: View


def view_of(reply: pb.RecallResponse) -> View:
    """Read the view of a reply: its sections one after another."""
    sections = reply.memory_view
    statements = (*sections.preferences, *sections.profile, *sections.constraints)
    return View(
        tuple(map(_cited, statements)),
        tuple((_cited(conflict.earlier), _cited(conflict.later)) for conflict in reply.conflicts),
    )


def view_metrics(judged: Sequence[Judged]) -> dict[str, float]:
    """Judge the views of answerable questions that say what has to be known. All figures are 0 to 1.

    `view_recall` is the share of needed things that some statement cites. `view_full` is the share of questions all of
    whose needed things are cited. `view_precision` is the share of statements that cite evidence, or a message that
    states an old value. `current_first` looks at questions for the current value that have an old one: it is the share
    whose new value is cited ahead of every statement of the old one. Figures that cannot be known are left out.
    """
    found = [[_is_cited(needed, item.view) for needed in item.question.needed] for item in judged]
    relevant = [_is_relevant(cited, item.question) for item in judged for cited in item.view.statements]
    changed = [item for item in judged if _has_changed(item.question)]
    shares: dict[str, Sequence[bool]] = {
        "view_recall": [cited for of_question in found for cited in of_question],
        "view_full": [all(of_question) for of_question in found],
        "view_precision": relevant,
        "current_first": [_new_first(item) for item in changed],
    }
    return {name: sum(values) / len(values) for name, values in shares.items() if values}


def conflict_metrics(judged: Sequence[Judged]) -> dict[str, float]:
    """Count contradictions over all questions with labels.

    `contradictions` counts the questions whose evidence contradicts itself. `contradictions_found` counts those of them
    where a reported pair cites both sides. `contradictions_false` is the share of all other questions with a pair.
    """
    contradicting = [item for item in judged if item.question.is_contradictory]
    others = [bool(item.view.conflicts) for item in judged if not item.question.is_contradictory]
    found = {"contradictions": float(len(contradicting))}
    if contradicting:
        found["contradictions_found"] = float(sum(map(_names_both_sides, contradicting)))
    if others:
        found["contradictions_false"] = sum(others) / len(others)
    return found


def is_right(judged: Judged, verdict: str) -> bool:
    """Return whether a recall is right in all respects.

    Where nothing answers the question, that is its verdict. POSSIBLE counts as SUPPORTED: it shows an answer for the
    reader to judge. A contradiction is right if its pair is reported. Else the
    verdict is as labelled, some statement cites each needed thing, and of a value that changed the new one comes first.
    """
    question = judged.question
    verdict = _SUPPORTED if verdict == _POSSIBLE else verdict
    if not question.is_answerable or verdict != question.verdict:
        return verdict == question.verdict
    if question.is_contradictory:
        return _names_both_sides(judged)
    is_full = all(_is_cited(needed, judged.view) for needed in question.needed)
    return is_full and (not _has_changed(question) or _new_first(judged))


def _cited(statement: pb.Statement) -> Cited:
    return frozenset(citation.message_id for citation in statement.citations)


def _is_cited(needed: frozenset[str], view: View) -> bool:
    return any(needed & cited for cited in view.statements)


def _is_relevant(cited: Cited, question: Question) -> bool:
    return bool(cited & (question.evidence | question.old))


def _has_changed(question: Question) -> bool:
    return question.category == CURRENT and bool(question.old)


def _new_first(judged: Judged) -> bool:
    question, statements = judged.question, judged.view.statements
    new = _first(statements, frozenset[str]().union(*question.needed))
    old = _first(statements, question.old)
    return new is not None and (old is None or new < old)


def _first(statements: Iterable[Cited], ids: frozenset[str]) -> int | None:
    return next((place for place, cited in enumerate(statements) if cited & ids), None)


def _names_both_sides(judged: Judged) -> bool:
    needed = judged.question.needed
    return any(
        all(item & (earlier | later) for item in needed) and earlier != later
        for earlier, later in judged.view.conflicts
    )
