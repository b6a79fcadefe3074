"""Synthesise a memory view without a model: quote the messages that most likely answer, the most relevant first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Final

from nomemory.recall.grounding.assertions import asserts, is_named, states
from nomemory.recall.model.evidence import Evidence, Findings
from nomemory.recall.model.memory_view import Draft, DraftCitation, DraftStatement
from nomemory.recall.model.question import Question
from nomemory.recall.skills.loader import Skill
from nomemory.recall.synthesis.quotation import quote
from nomemory.recall.synthesis.sections import section_of

LEAST: Final = 1
"""Messages that are quoted in any case: one clear winner stands alone."""


MOST: Final = 4
"""Messages that are quoted at most."""


_OFFSET: Final = -1.8
_PLACE: Final = -1.0
_GAP: Final = 0.25
_NEARNESS: Final = 0.65
"""Log odds that a message is evidence: by the logarithm of its place, its score less the best one's, its nearness."""


_TYPICAL: Final = 1.5
"""The nearness of a message that stands high, where meaning could not be searched."""


class ExtractiveSynthesiser:
    """Implements `Synthesiser`.

    Args:
        quoted: from what probability on a message beyond the first is quoted. docs/quality.md has the curve.
    """

    name: ClassVar[str] = "rules"

    def __init__(self, quoted: float) -> None:
        self._quoted = quoted

    async def draft(self, question: Question, skill: Skill, findings: Findings) -> Draft:  # noqa: ARG002 - the protocol's signature
        """Quote the evidence that most likely answers, and what retracted any of it, the most relevant first."""
        best = chosen(quotable(findings.evidence, question), self._quoted)
        takers = {one.message.retracted_by for one in best}
        best += [one for one in findings.evidence if one.message.message_id in takers and one not in best]
        quotes = ((one, quote(one.message.content, question.reading)) for one in best)
        return Draft(
            tuple(
                DraftStatement(section_of(one.message), text, (DraftCitation(one.message.message_id, text),))
                for one, text in quotes
            )
        )


def quotable(evidence: Sequence[Evidence], question: Question) -> list[Evidence]:
    """Leave out what states nothing; what those say who can know comes alone, if there is any.

    A correction stays, however short it is: it says that something no longer holds.
    """
    stating = [one for one in evidence if one.message.retracts or states(one.message, question)]
    if question.is_talk or is_named(one.message for one in evidence):
        return stating
    known = [one for one in stating if one.message.retracts or asserts(one.message, question, named=False)]
    return known or stating


def chosen(evidence: Sequence[Evidence], quoted: float) -> list[Evidence]:
    """Cut the ranking: the first always, then as long as a message is likely to be evidence."""
    is_near = any(one.deviations for one in evidence)
    return [
        one
        for place, one in enumerate(evidence[:MOST])
        if place < LEAST
        or probability(place, one.score - evidence[0].score, one.deviations if is_near else _TYPICAL) >= quoted
    ]


def probability(place: int, gap: float, nearness: float) -> float:
    """Return how likely the message at a place is evidence.

    Args:
        place: from 0.
        gap: its score less that of the first, 0 or less.
        nearness: to the question, in standard deviations above what is usual.
    """
    odds = _OFFSET + _PLACE * math.log(place + 1) + _GAP * gap + _NEARNESS * nearness
    return 1 / (1 + math.exp(-odds))
