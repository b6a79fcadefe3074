"""The result of a recall."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC

from nomemory.client.prompt_block import MAX_TOKENS, Block, RecalledMessage, marks
from nomemory.recall.model.evidence import Evidence
from nomemory.recall.model.memory_view import Attribution, Conflict, MemoryView, Verdict
from nomemory.recall.model.question import Question
from nomemory.recall.model.search_limits import Limits
from nomemory.recall.model.step import Step


@dataclass(frozen=True, slots=True)
class RecallResult:
    """A memory view, the evidence best first, what was searched, and the verdict."""

    memory_view: MemoryView
    evidence: tuple[Evidence, ...]
    limits: Limits
    verdict: Verdict
    conflicts: tuple[Conflict, ...] = ()
    trace: tuple[Step, ...] = ()

    def oldest_first(self) -> tuple[Evidence, ...]:
        """Return the evidence in the order of time."""
        return tuple(sorted(self.evidence, key=lambda one: (one.message.ts, one.message.message_id)))

    def as_prompt(self, *, max_tokens: int = MAX_TOKENS, question: Question | None = None) -> str:
        """Return the block to paste into a prompt: messages with date, speaker and id, oldest first, fenced as data.

        A `Budget` with as many `evidence_messages` as may fit, such as 40, fills it.

        Args:
            max_tokens: most tokens of the block, as `prompt_passages.tokens` counts them; at least 400. Of long
                messages the passages that matter most are shown; what still does not fit is left out, the likeliest
                last.
            question: what was asked: its words choose the passages of long messages, beside what is quoted, and the
                dates are in its time zone; None: in UTC.

        Raises:
            ValueError: `max_tokens` is too small.
        """
        statements = self.memory_view.statements()
        passed_on = frozenset(
            citation.message_id
            for statement in statements
            if statement.attribution is Attribution.QUOTED
            for citation in statement.citations
        )
        messages = [
            RecalledMessage(said.message_id, said.ts, said.speaker, said.content, retracted_by=said.retracted_by)
            for said in (one.message for one in self.evidence)
        ]
        found = marks(statements, self.conflicts, passed_on)
        asked, zone = (question.text, question.now.tzinfo) if question else ("", None)
        return Block(messages, found, asked, zone or UTC, self.limits.index_lagging).text(max_tokens)
