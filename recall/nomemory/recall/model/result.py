"""The result of a recall."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.client.prompt_block import MAX_TOKENS, Block, RecalledMessage, marks
from nomemory.recall.model.evidence import Evidence
from nomemory.recall.model.limits import Limits
from nomemory.recall.model.memory_view import Attribution, Conflict, MemoryView, Verdict
from nomemory.recall.model.trace import Step


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

    def as_prompt(self, *, max_tokens: int = MAX_TOKENS) -> str:
        """Return the block to paste into a prompt: whole messages with date, speaker and id, oldest first, as data.

        Args:
            max_tokens: most tokens of the block, as `nomemory.client.token_estimate` counts them; at least 400. What
                does not fit is left out, the likeliest message last.

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
            RecalledMessage(one.message.message_id, one.message.ts, one.message.speaker, one.message.content)
            for one in self.evidence
        ]
        return Block(messages, self.verdict.value, marks(statements, self.conflicts, passed_on)).text(max_tokens)
