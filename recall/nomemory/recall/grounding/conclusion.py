"""Turns drafts into an answer: verified statements, contradictions, and a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nomemory.recall.grounding.citations import verify
from nomemory.recall.grounding.contradictions import find_conflicts
from nomemory.recall.grounding.verdict import Grounds, decide
from nomemory.recall.model.evidence import Evidence, Retrieval
from nomemory.recall.model.memory_view import DraftStatement, MemoryView, Synthesis, Verdict
from nomemory.recall.model.question import Question
from nomemory.recall.model.sufficiency import EnoughRule, Sufficiency
from nomemory.recall.passages.reader import PassageReader

_DEFAULT_RULE: Final = EnoughRule()


def conclude(
    question: Question,
    drafts: Sequence[DraftStatement],
    retrieval: Retrieval,
    evidence: Sequence[Evidence],
    sufficiency: Sufficiency | None = None,
    rule: EnoughRule = _DEFAULT_RULE,
) -> Synthesis:
    """Verify drafts, find contradictions, and decide the verdict.

    A view that does not answer the question is left empty. The evidence is returned all the same.
    """
    reading = PassageReader(retrieval)
    view, notes = verify(drafts, retrieval)
    conflicts = find_conflicts(view.statements(), reading)
    ruling = decide(question, view, conflicts, reading, Grounds(evidence, sufficiency, rule))
    if ruling.verdict is Verdict.INSUFFICIENT:
        return Synthesis(MemoryView(), ruling.verdict, (), (*notes, ruling.reason))
    return Synthesis(view, ruling.verdict, ruling.conflicts, (*notes, ruling.reason))
