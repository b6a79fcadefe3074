"""Build a memory view from a draft: verify, annotate and sort the statements, find conflicts and decide the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from itertools import pairwise

from nomemory.recall.grounding.assertions import determine_attribution
from nomemory.recall.grounding.calibration import calibrate_sufficiency
from nomemory.recall.grounding.citations import verify_statements
from nomemory.recall.grounding.claimed_conflicts import StatementTexts, verify_conflicts
from nomemory.recall.grounding.contradictions import MessagePair, find_contradictions
from nomemory.recall.grounding.sources import get_cited_message_ids, get_retracting_message_ids
from nomemory.recall.grounding.statement_figures import FigureChecker
from nomemory.recall.grounding.statement_order import (
    MIN_SAME_TOPIC_Z_SCORE,
    MessageIdPair,
    find_retractions,
    sort_by_relevance,
    sort_by_time,
)
from nomemory.recall.grounding.supersession import find_superseding_messages
from nomemory.recall.grounding.verdict import accept_model_verdict, decide_verdict
from nomemory.recall.model.evidence import RetrievedMessages, SearchFindings
from nomemory.recall.model.memory_view import (
    Attribution,
    Conflict,
    DraftCitation,
    DraftStatement,
    DraftView,
    MemoryView,
    Section,
    Statement,
    Verdict,
    VerifiedView,
)
from nomemory.recall.model.note import Note, NoteKind, create_note
from nomemory.recall.model.question import Question
from nomemory.recall.model.sufficiency import DEFAULT_THRESHOLDS, SufficiencyThresholds
from nomemory.text.terms import extract_terms


def verify_draft_view(
    question: Question,
    draft: DraftView,
    findings: SearchFindings,
    thresholds: SufficiencyThresholds = DEFAULT_THRESHOLDS,
) -> VerifiedView:
    """Verify a draft, annotate its statements with authors and superseding messages, and decide the verdict.

    If a chat model wrote the draft, its verdict and conflicts are kept if they are consistent with the verified
    statements. Otherwise, rules determine the verdict and the conflicts. The memory view is empty if the verdict is
    INSUFFICIENT.
    """
    figures = FigureChecker(question, findings.retrieval) if draft.is_model_written else None
    view, notes = verify_statements(draft.statements, findings.retrieval, figures)
    claimed = verify_conflicts(draft.conflicts, view, findings.retrieval)
    verdict = accept_model_verdict(
        draft.verdict,
        has_valid_statement=_has_valid_statement(view, findings.retrieval),
        has_contradiction=bool(claimed),
    )
    if verdict is not None:
        return _accept_draft_view(view, verdict, claimed, findings, notes)
    rejection = (
        () if draft.verdict is None else (create_note(NoteKind.MODEL_VERDICT_REJECTED, verdict=draft.verdict.value),)
    )
    return _decide_by_rules(question, draft, findings, thresholds, rejection)


def _accept_draft_view(
    view: MemoryView,
    verdict: Verdict,
    claimed: Sequence[StatementTexts],
    findings: SearchFindings,
    notes: tuple[Note, ...],
) -> VerifiedView:
    conflicting_texts = {text for pair in claimed for text in pair}
    contradicted_ids = {
        citation.message_id
        for statement in view.list_statements()
        if statement.text in conflicting_texts
        for citation in statement.citations
    }
    if verdict is Verdict.INSUFFICIENT:
        return VerifiedView(MemoryView(), verdict, (), (*notes, create_note(NoteKind.MODEL_VERDICT)))
    view = _sort_sections(_annotate_view(view, findings, contradicted_ids), sort_by_time)
    statement_by_text = {statement.text: statement for statement in view.list_statements()}
    conflicts = tuple(Conflict(statement_by_text[earlier], statement_by_text[later]) for earlier, later in claimed)
    return VerifiedView(view, verdict, conflicts, (*notes, create_note(NoteKind.MODEL_VERDICT)))


def _decide_by_rules(
    question: Question,
    draft: DraftView,
    findings: SearchFindings,
    thresholds: SufficiencyThresholds,
    rejection: tuple[Note, ...],
) -> VerifiedView:
    """Detect contradictions, and decide the verdict from the estimated probability of an answer."""
    estimate = calibrate_sufficiency(findings.sufficiency) if findings.sufficiency else None
    may_answer = estimate is None or estimate >= thresholds.possible  # Ignore contradictions in irrelevant messages.
    unretracted = [item for item in findings.evidence if not item.message.retracted_by]
    pairs = list(find_contradictions(unretracted, findings.relations, question)) if may_answer else []
    figures = FigureChecker(question, findings.retrieval) if draft.is_model_written else None
    view, notes = verify_statements(
        [*draft.statements, *_quote_contradictory_messages(pairs, draft.statements)], findings.retrieval, figures
    )
    view = _annotate_view(view, findings, {item.message_id for pair in pairs for item in pair})
    view = _sort_sections(
        view, partial(sort_by_relevance, same_topic_pairs=_find_same_topic_pairs(question, view, pairs, findings))
    )
    conflicts = tuple(_build_conflicts(view, pairs))
    has_valid_statement, has_contradiction = _has_valid_statement(view, findings.retrieval), bool(conflicts)
    is_corrected = _has_correction(question, view, findings)
    decision = decide_verdict(
        estimate,
        thresholds,
        has_valid_statement=has_valid_statement,
        has_contradiction=has_contradiction,
        is_corrected=is_corrected,
    )
    if decision.verdict is Verdict.INSUFFICIENT:
        view = MemoryView()
    return VerifiedView(
        view, decision.verdict, conflicts, (*notes, *rejection, decision.reason), decision.sufficiency_threshold
    )


def _has_valid_statement(view: MemoryView, retrieval: RetrievedMessages) -> bool:
    """Return whether a statement of the view cites a message that was not retracted."""
    return not all(all(get_retracting_message_ids(statement, retrieval)) for statement in view.list_statements())


def _quote_contradictory_messages(
    pairs: Iterable[MessagePair], drafts: Sequence[DraftStatement]
) -> list[DraftStatement]:
    """Return draft statements that quote the contradictory messages which no other draft cites."""
    section = drafts[0].section if drafts else Section.PROFILE
    cited = {citation.message_id for draft in drafts for citation in draft.citations}
    missing = {item.message_id: item for pair in pairs for item in pair if item.message_id not in cited}
    return [
        DraftStatement(section, item.content, (DraftCitation(item.message_id, item.content),))
        for item in missing.values()
    ]


def _annotate_view(view: MemoryView, findings: SearchFindings, contradicted_ids: AbstractSet[str]) -> MemoryView:
    """Set the author and the superseding message of each statement.

    Statements that cite a contradicted message are not marked as superseded, because the conflict is unresolved.
    """
    cited = {
        citation.message_id for statement in view.list_statements() for citation in statement.citations
    } - contradicted_ids
    superseding = find_superseding_messages(findings.relations, cited)

    def annotate_section(statements: Iterable[Statement]) -> tuple[Statement, ...]:
        return tuple(_annotate_statement(statement, superseding, findings.retrieval) for statement in statements)

    return MemoryView(
        annotate_section(view.preferences), annotate_section(view.profile), annotate_section(view.constraints)
    )


def _annotate_statement(statement: Statement, superseding: dict[str, str], retrieval: RetrievedMessages) -> Statement:
    ids = {citation.message_id for citation in statement.citations}
    retractors = get_retracting_message_ids(statement, retrieval)
    superseding_ids = {retractors[-1]} if all(retractors) else {superseding.get(message_id, "") for message_id in ids}
    attributions = {
        determine_attribution(message) for message_id in ids if (message := retrieval.get_message(message_id))
    }
    return replace(
        statement,
        superseded_by=superseding_ids.pop() if len(superseding_ids) == 1 else "",
        attribution=attributions.pop() if len(attributions) == 1 else Attribution.UNSPECIFIED,
    )


def _sort_sections(view: MemoryView, order: Callable[[tuple[Statement, ...]], tuple[Statement, ...]]) -> MemoryView:
    return MemoryView(order(view.preferences), order(view.profile), order(view.constraints))


def _find_same_topic_pairs(
    question: Question, view: MemoryView, pairs: Iterable[MessagePair], findings: SearchFindings
) -> list[MessageIdPair]:
    """Return pairs of ids of messages about the same topic.

    If the question asks for the current state, pair all quoted messages.
    """
    similar_pairs = [
        (relation.earlier_id, relation.later_id)
        for relation in findings.relations
        if relation.semantic_z_score >= MIN_SAME_TOPIC_Z_SCORE
    ]
    contradictory_pairs = [(earlier.message_id, later.message_id) for earlier, later in pairs]
    ids = [message_id for statement in view.list_statements() for message_id in get_cited_message_ids(statement)]
    quoted_pairs = list(pairwise(ids)) if question.analysis.asks_for_latest else []
    return [*similar_pairs, *contradictory_pairs, *find_retractions(findings.retrieval), *quoted_pairs]


def _has_correction(question: Question, view: MemoryView, findings: SearchFindings) -> bool:
    """Return whether a quoted message corrects the best match.

    The match must have at least half of the question's words.
    """
    cited = {message_id for statement in view.list_statements() for message_id in get_cited_message_ids(statement)}
    best = next((item.message for item in findings.evidence if not item.message.retracts), None)
    if best is None or best.retracted_by not in cited:
        return False
    question_terms = extract_terms(question.analysis.question_text)
    return bool(question_terms) and 2 * len(question_terms & extract_terms(best.content)) >= len(question_terms)


def _build_conflicts(view: MemoryView, pairs: Iterable[MessagePair]) -> Iterable[Conflict]:
    """Convert pairs of contradictory messages to possible conflicts between the statements that cite them."""
    statement_by_message_id = {
        citation.message_id: statement
        for statement in reversed(view.list_statements())
        for citation in statement.citations
    }
    for earlier, later in pairs:
        if {earlier.message_id, later.message_id} <= statement_by_message_id.keys():
            yield Conflict(
                statement_by_message_id[earlier.message_id], statement_by_message_id[later.message_id], is_possible=True
            )
