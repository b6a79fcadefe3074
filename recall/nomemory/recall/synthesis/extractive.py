"""Draft a memory view without a chat model, by quoting the messages that most likely answer the question."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Final

from nomemory.recall.grounding.assertions import can_answer_question, have_sender_names, is_quotable
from nomemory.recall.grounding.supersession import find_superseding_messages
from nomemory.recall.model.evidence import Evidence, SearchFindings
from nomemory.recall.model.memory_view import DraftCitation, DraftStatement, DraftView
from nomemory.recall.model.question import Question
from nomemory.recall.skills.loader import Skill
from nomemory.recall.synthesis.quotation import select_passage
from nomemory.recall.synthesis.sections import determine_section

MIN_QUOTED: Final = 1
"""Minimum number of quoted messages."""


MAX_QUOTED: Final = 4
"""Maximum number of quoted messages."""


_OFFSET: Final = -1.8
_RANK_WEIGHT: Final = -1.0
_GAP_WEIGHT: Final = 0.25
_SIMILARITY_WEIGHT: Final = 0.65
"""Coefficients for the log odds that a message is evidence: an offset, and weights for the logarithm of the rank, the
score gap to the best message, and the similarity."""


_DEFAULT_Z_SCORE: Final = 1.7
"""Assumed similarity of a top message, in standard deviations above the mean, if semantic search is unavailable."""


class ExtractiveSynthesizer:
    """Drafts memory views that quote the best evidence.

    Args:
        quoted: minimum probability that a message is evidence, for all quoted messages except the best. docs/quality.md
            shows the effect of this threshold.
    """

    name: ClassVar[str] = "rules"

    def __init__(self, quoted: float) -> None:
        self._quoted = quoted

    async def draft_view(self, question: Question, skill: Skill, findings: SearchFindings) -> DraftView:  # noqa: ARG002 - `skill` is not used
        """Draft a memory view that quotes the most likely answers and the messages that retract or supersede them."""
        quotable = select_quotable_evidence(findings.evidence, question)
        best = select_probable_evidence(quotable, self._quoted)
        superseding_ids = find_superseding_messages(findings.relations, {item.message.message_id for item in quotable})
        newer_ids = {item.message.retracted_by for item in best}
        newer_ids |= {superseding_ids.get(item.message.message_id, "") for item in best[:MIN_QUOTED]}
        best += [item for item in findings.evidence if item.message.message_id in newer_ids and item not in best]
        quotes = ((candidate, select_passage(candidate.message.content, question.analysis)) for candidate in best)
        return DraftView(
            tuple(
                DraftStatement(determine_section(item.message), text, (DraftCitation(item.message.message_id, text),))
                for item, text in quotes
            )
        )


def select_quotable_evidence(evidence: Sequence[Evidence], question: Question) -> list[Evidence]:
    """Remove evidence that cannot be quoted.

    If senders who may know the answer assert something, keep only these assertions.

    Messages that retract other messages are always kept.
    """
    quotable_items = [item for item in evidence if item.message.retracts or is_quotable(item.message, question)]
    if question.is_conversation or have_sender_names(item.message for item in evidence):
        return quotable_items
    assertions = [
        item
        for item in quotable_items
        if item.message.retracts or can_answer_question(item.message, question, has_sender_names=False)
    ]
    return assertions or quotable_items


def select_probable_evidence(evidence: Sequence[Evidence], min_probability: float) -> list[Evidence]:
    """Select the best message, and the other messages whose probability of being evidence is high enough."""
    has_similarity = any(item.semantic_z_score for item in evidence)
    return [
        item
        for rank, item in enumerate(evidence[:MAX_QUOTED])
        if rank < MIN_QUOTED
        or estimate_probability(
            rank, item.score - evidence[0].score, item.semantic_z_score if has_similarity else _DEFAULT_Z_SCORE
        )
        >= min_probability
    ]


def estimate_probability(rank: int, gap: float, semantic_z_score: float) -> float:
    """Estimate the probability that a message is evidence for an answer.

    Args:
        rank: rank of the message; the best message has rank 0.
        gap: score of the message minus the best score.
        semantic_z_score: semantic similarity to the question, in standard deviations above the mean.
    """
    odds = _OFFSET + _RANK_WEIGHT * math.log(rank + 1) + _GAP_WEIGHT * gap + _SIMILARITY_WEIGHT * semantic_z_score
    return 1 / (1 + math.exp(-odds))
