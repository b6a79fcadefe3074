"""Build a memory view from a draft: verify, order, and mark superseded and contradictory statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from itertools import pairwise

from nomemory.recall.grounding.assertions import attribution, have_sender_names
from nomemory.recall.grounding.calibration import calibrated
from nomemory.recall.grounding.citations import verify
from nomemory.recall.grounding.claimed_conflicts import Texts, verified_conflicts
from nomemory.recall.grounding.contradictions import Pair, contradictions
from nomemory.recall.grounding.sources import retracting_ids, sources
from nomemory.recall.grounding.statement_figures import StatementFigures
from nomemory.recall.grounding.statement_order import SAME_MATTER, Ids, by_relevance, by_time, retractions
from nomemory.recall.grounding.supersession import superseding_messages
from nomemory.recall.grounding.verdict import decide, model_verdict
from nomemory.recall.model.evidence import Findings, Retrieval
from nomemory.recall.model.memory_view import (
    Attribution,
    Conflict,
    Draft,
    DraftCitation,
    DraftStatement,
    MemoryView,
    Section,
    Statement,
    Synthesis,
    Verdict,
)
from nomemory.recall.model.note import Note, NoteKind, note
from nomemory.recall.model.question import Question
from nomemory.recall.model.sufficiency import DEFAULT_THRESHOLDS, SufficiencyThresholds
from nomemory.text.terms import extract_terms


def conclude(
    question: Question, draft: Draft, findings: Findings, thresholds: SufficiencyThresholds = DEFAULT_THRESHOLDS
) -> Synthesis:
    """Verify a draft, mark superseded statements and authors, and decide the verdict.

    The draft's own verdict and conflicts are kept if they are consistent with the verified statements. Otherwise the
    rules decide. The view is empty if nothing answers the question.
    """
    figures = StatementFigures(question, findings.retrieval) if draft.composed else None
    view, notes = verify(draft.statements, findings.retrieval, figures)
    claimed = verified_conflicts(draft.conflicts, view, findings.retrieval)
    verdict = model_verdict(
        draft.verdict, cited=_has_valid_statement(view, findings.retrieval), contradictory=bool(claimed)
    )
    if verdict is not None:
        return _accept_draft(view, verdict, claimed, findings, notes)
    rejection = () if draft.verdict is None else (note(NoteKind.MODEL_VERDICT_REJECTED, verdict=draft.verdict.value),)
    return _decide_by_rules(question, draft, findings, thresholds, rejection)


def _accept_draft(
    view: MemoryView, verdict: Verdict, claimed: Sequence[Texts], findings: Findings, notes: tuple[Note, ...]
) -> Synthesis:
    sides = {text for pair in claimed for text in pair}
    against = {
        citation.message_id
        for statement in view.statements()
        if statement.text in sides
        for citation in statement.citations
    }
    if verdict is Verdict.INSUFFICIENT:
        return Synthesis(MemoryView(), verdict, (), (*notes, note(NoteKind.MODEL_VERDICT)))
    view = _ordered(_annotate_view(view, findings, against), by_time)
    stated = {statement.text: statement for statement in view.statements()}
    conflicts = tuple(Conflict(stated[earlier], stated[later]) for earlier, later in claimed)
    return Synthesis(view, verdict, conflicts, (*notes, note(NoteKind.MODEL_VERDICT)))


def _decide_by_rules(
    question: Question, draft: Draft, findings: Findings, thresholds: SufficiencyThresholds, rejection: tuple[Note, ...]
) -> Synthesis:
    """Show both sides of each contradiction, and decide by the estimated probability."""
    named = have_sender_names(findings.retrieval)
    estimate = calibrated(findings.sufficiency, named=named) if findings.sufficiency else None
    likely = estimate is None or estimate >= thresholds.possible  # Otherwise the contradiction is irrelevant.
    holding = [item for item in findings.evidence if not item.message.retracted_by]
    pairs = list(contradictions(holding, findings.relations, question)) if likely else []
    figures = StatementFigures(question, findings.retrieval) if draft.composed else None
    view, notes = verify(
        [*draft.statements, *_contradiction_drafts(pairs, draft.statements)], findings.retrieval, figures
    )
    view = _annotate_view(view, findings, {item.message_id for pair in pairs for item in pair})
    view = _ordered(view, partial(by_relevance, same=_same_matter(question, view, pairs, findings)))
    conflicts = tuple(_conflicts(view, pairs))
    cited, contradictory = _has_valid_statement(view, findings.retrieval), bool(conflicts)
    corrected = _is_corrected(question, view, findings)
    decision = decide(estimate, thresholds, cited=cited, contradictory=contradictory, corrected=corrected)
    if decision.verdict is Verdict.INSUFFICIENT:
        view = MemoryView()
    return Synthesis(
        view, decision.verdict, conflicts, (*notes, *rejection, decision.reason), decision.sufficiency_threshold
    )


def _has_valid_statement(view: MemoryView, retrieval: Retrieval) -> bool:
    """Return whether a statement cites a message that was not retracted."""
    return not all(all(retracting_ids(statement, retrieval)) for statement in view.statements())


def _contradiction_drafts(pairs: Iterable[Pair], drafts: Sequence[DraftStatement]) -> list[DraftStatement]:
    """Return contradictory messages as drafts, in the section of the other drafts."""
    section = drafts[0].section if drafts else Section.PROFILE
    cited = {citation.message_id for draft in drafts for citation in draft.citations}
    missing = {item.message_id: item for pair in pairs for item in pair if item.message_id not in cited}
    return [
        DraftStatement(section, item.content, (DraftCitation(item.message_id, item.content),))
        for item in missing.values()
    ]


def _annotate_view(view: MemoryView, findings: Findings, against: AbstractSet[str]) -> MemoryView:
    """Set the author and the superseding message of each statement.

    Contradicted messages (`against`) are not marked as superseded because the conflict is unresolved.
    """
    cited = {citation.message_id for statement in view.statements() for citation in statement.citations} - against
    superseding = superseding_messages(findings.relations, cited)

    def annotated(statements: Iterable[Statement]) -> tuple[Statement, ...]:
        return tuple(_annotate(statement, superseding, findings.retrieval) for statement in statements)

    return MemoryView(annotated(view.preferences), annotated(view.profile), annotated(view.constraints))


def _annotate(statement: Statement, superseding: dict[str, str], retrieval: Retrieval) -> Statement:
    ids = {citation.message_id for citation in statement.citations}
    retractors = retracting_ids(statement, retrieval)
    superseding_ids = {retractors[-1]} if all(retractors) else {superseding.get(message_id, "") for message_id in ids}
    attributions = {attribution(message) for message_id in ids if (message := retrieval.get(message_id))}
    return replace(
        statement,
        superseded_by=superseding_ids.pop() if len(superseding_ids) == 1 else "",
        attribution=attributions.pop() if len(attributions) == 1 else Attribution.UNSPECIFIED,
    )


def _ordered(view: MemoryView, order: Callable[[tuple[Statement, ...]], tuple[Statement, ...]]) -> MemoryView:
    return MemoryView(order(view.preferences), order(view.profile), order(view.constraints))


def _same_matter(question: Question, view: MemoryView, pairs: Iterable[Pair], findings: Findings) -> list[Ids]:
    """Return pairs of messages about the same topic; all quoted messages if the question asks for the current state."""
    near = [(relation.earlier, relation.later) for relation in findings.relations if relation.nearness >= SAME_MATTER]
    against = [(earlier.message_id, later.message_id) for earlier, later in pairs]
    ids = [message_id for statement in view.statements() for message_id in sources(statement)]
    quoted = list(pairwise(ids)) if question.analysis.asks_for_latest else []
    return [*near, *against, *retractions(findings.retrieval), *quoted]


def _is_corrected(question: Question, view: MemoryView, findings: Findings) -> bool:
    """Return whether a quoted message corrects the best match, which contains at least half of the question's words."""
    cited = {message_id for statement in view.statements() for message_id in sources(statement)}
    best = next((item.message for item in findings.evidence if not item.message.retracts), None)
    if best is None or best.retracted_by not in cited:
        return False
    question_terms = extract_terms(question.analysis.question_text)
    return bool(question_terms) and 2 * len(question_terms & extract_terms(best.content)) >= len(question_terms)


def _conflicts(view: MemoryView, pairs: Iterable[Pair]) -> Iterable[Conflict]:
    """Return contradictions as conflicts between statements. They are marked as possible because rules infer them."""
    stating = {
        citation.message_id: statement for statement in reversed(view.statements()) for citation in statement.citations
    }
    for earlier, later in pairs:
        if {earlier.message_id, later.message_id} <= stating.keys():
            yield Conflict(stating[earlier.message_id], stating[later.message_id], possible=True)
