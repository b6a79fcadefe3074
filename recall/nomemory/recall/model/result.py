"""The result of a recall."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC

from nomemory.client.prompt_block import MAX_TOKENS, PromptBlock, RecalledMessage, annotate
from nomemory.recall.model.evidence import Evidence
from nomemory.recall.model.memory_view import Attribution, Conflict, MemoryView, Verdict
from nomemory.recall.model.question import Question
from nomemory.recall.model.search_limits import Limits
from nomemory.recall.model.step import RecallStep


@dataclass(frozen=True, slots=True)
class RecallResult:
    """A memory view with its evidence (best first), search limits and verdict."""

    memory_view: MemoryView
    evidence: tuple[Evidence, ...]
    limits: Limits
    verdict: Verdict
    conflicts: tuple[Conflict, ...] = ()
    trace: tuple[RecallStep, ...] = ()

    def oldest_first(self) -> tuple[Evidence, ...]:
        """Return the evidence in chronological order."""
        return tuple(sorted(self.evidence, key=lambda item: (item.message.ts, item.message.message_id)))

    def as_prompt(self, *, max_tokens: int = MAX_TOKENS, question: Question | None = None) -> str:
        """Return the evidence as a text block for a prompt.

        Messages are fenced as data, oldest first, with date, sender and id. Set `Budget.evidence_messages` to 40, for
        example, to fill the block.

        Args:
            max_tokens: token limit of the block, as counted by `prompt_passages.tokens`; at least 400. Long messages
                are reduced to their most relevant passages. The least relevant messages are dropped first.
            question: selects passages of long messages in addition to quotes, and sets the time zone of dates; None for
                UTC.

        Raises:
            ValueError: `max_tokens` is too small.
        """
        statements = self.memory_view.statements()
        quoted_ids = frozenset(
            citation.message_id
            for statement in statements
            if statement.attribution is Attribution.QUOTED
            for citation in statement.citations
        )
        messages = [
            RecalledMessage(
                message.message_id, message.ts, message.sender, message.content, retracted_by=message.retracted_by
            )
            for message in (item.message for item in self.evidence)
        ]
        annotations = annotate(statements, self.conflicts, quoted_ids)
        text, zone = (question.text, question.now.tzinfo) if question else ("", None)
        return PromptBlock(messages, annotations, text, zone or UTC, self.limits.index_lagging).render(max_tokens)
