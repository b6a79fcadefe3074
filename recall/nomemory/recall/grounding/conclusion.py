"""From drafts to an answer: verified, newest first, with what is superseded or contradictory, and a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from nomemory.recall.grounding.assertion import attribution, is_named
from nomemory.recall.grounding.citations import verify
from nomemory.recall.grounding.contradictions import Pair, contradictions
from nomemory.recall.grounding.supersession import superseded
from nomemory.recall.grounding.verdict import decide
from nomemory.recall.model.evidence import Findings, Retrieval
from nomemory.recall.model.memory_view import (
    Attribution,
    Conflict,
    DraftCitation,
    DraftStatement,
    MemoryView,
    Section,
    Statement,
    Synthesis,
)
from nomemory.recall.model.question import Question
from nomemory.recall.model.sufficiency import EnoughRule

_DEFAULT_RULE: Final = EnoughRule()


def conclude(
    question: Question, drafts: Sequence[DraftStatement], findings: Findings, rule: EnoughRule = _DEFAULT_RULE
) -> Synthesis:
    """Verify drafts, show both sides of a contradiction, mark what was superseded, and decide the verdict.

    The view keeps whatever could be cited, whatever the verdict.
    """
    pairs = list(contradictions(findings.evidence, findings.relations, question))
    view, notes = verify([*drafts, *_sides(pairs, drafts)], findings.retrieval)
    view = _marked(view, findings, pairs)
    conflicts = tuple(_conflicts(view, pairs))
    ruling = decide(
        findings.sufficiency,
        rule,
        cited=bool(view.statements()),
        contradictory=bool(conflicts),
        named=is_named(findings.retrieval),
    )
    return Synthesis(view, ruling.verdict, conflicts, (*notes, ruling.reason))


def _sides(pairs: Iterable[Pair], drafts: Sequence[DraftStatement]) -> list[DraftStatement]:
    """Return the messages that contradict each other as drafts, in the section that the others are in."""
    section = drafts[0].section if drafts else Section.PROFILE
    cited = {citation.message_id for draft in drafts for citation in draft.citations}
    missing = {one.message_id: one for pair in pairs for one in pair if one.message_id not in cited}
    return [
        DraftStatement(section, one.content, (DraftCitation(one.message_id, one.content),)) for one in missing.values()
    ]


def _marked(view: MemoryView, findings: Findings, pairs: Sequence[Pair]) -> MemoryView:
    """Put the newest first, and say of each statement whose words it holds and what took its place."""
    against = {one.message_id for pair in pairs for one in pair}
    cited = {citation.message_id for one in view.statements() for citation in one.citations} - against
    newer = superseded(findings.relations, cited)

    def marked(statements: Iterable[Statement]) -> tuple[Statement, ...]:
        made = [_mark(one, newer, findings.retrieval) for one in statements]
        return tuple(sorted(made, key=_newest, reverse=True))

    return MemoryView(marked(view.preferences), marked(view.profile), marked(view.constraints))


def _mark(statement: Statement, newer: dict[str, str], retrieval: Retrieval) -> Statement:
    ids = {citation.message_id for citation in statement.citations}
    by = {newer.get(message_id, "") for message_id in ids}
    voices = {attribution(message) for message_id in ids if (message := retrieval.get(message_id))}
    return replace(
        statement,
        superseded_by=by.pop() if len(by) == 1 else "",
        attribution=voices.pop() if len(voices) == 1 else Attribution.UNSPECIFIED,
    )


def _newest(statement: Statement) -> tuple[float, bytes]:
    return max((citation.ts.timestamp(), citation.message_id.encode()) for citation in statement.citations)


def _conflicts(view: MemoryView, pairs: Iterable[Pair]) -> Iterable[Conflict]:
    """Return the contradictions as statements of the view. All of them are read off the form of words: guesses."""
    stating = {citation.message_id: one for one in reversed(view.statements()) for citation in one.citations}
    for earlier, later in pairs:
        if {earlier.message_id, later.message_id} <= stating.keys():
            yield Conflict(stating[earlier.message_id], stating[later.message_id], possible=True)
