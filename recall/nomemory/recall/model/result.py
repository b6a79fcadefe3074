"""The result of a recall, and its formatting as a prompt."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC

from nomemory.client.prompt_block import MAX_TOKENS, PromptBlock, RecalledMessage, build_annotations
from nomemory.recall.model.evidence import Evidence
from nomemory.recall.model.memory_view import Attribution, Conflict, MemoryView, Verdict
from nomemory.recall.model.question import Question
from nomemory.recall.model.search_limits import SearchLimits
from nomemory.recall.model.step import RecallStep


@dataclass(frozen=True, slots=True)
class RecallResult:
    """The result of a recall: a verified memory view, its verdict, and the evidence in ranking order."""

    memory_view: MemoryView
    evidence: tuple[Evidence, ...]
    limits: SearchLimits
    verdict: Verdict
    conflicts: tuple[Conflict, ...] = ()
    trace: tuple[RecallStep, ...] = ()

    def sort_evidence_by_time(self) -> tuple[Evidence, ...]:
        """Return the evidence sorted by time, oldest first."""
        return tuple(sorted(self.evidence, key=lambda item: (item.message.ts, item.message.message_id)))

    def as_prompt(self, *, max_tokens: int = MAX_TOKENS, question: Question | None = None) -> str:
        """Return the evidence as a text block for a prompt.

        Messages are fenced as data, oldest first, with date, sender and id. Set `Budget.evidence_messages` to 40, for
        example, to fill the block.

        Args:
            max_tokens: maximum number of tokens in the text, estimated by `prompt_passages.count_tokens`; at least 400.
                Long messages are shortened to their most relevant passages. If the text is still too long, the least
                relevant messages are dropped.
            question: the question, whose words select passages of long messages, and whose time zone is used for dates.
                Without a question, only quotes select passages, and dates are in UTC.

        Raises:
            ValueError: `max_tokens` is too small.
        """
        statements = self.memory_view.list_statements()
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
        annotations = build_annotations(statements, self.conflicts, quoted_ids)
        text, zone = (question.text, question.now.tzinfo) if question else ("", None)
        return PromptBlock(messages, annotations, text, zone or UTC, self.limits.index_lagging).render(max_tokens)
