"""A synthesiser without a model: it quotes the messages that most likely answer, whole and newest first.

What of a message is quoted: all of it, unless it is very long; then whole sentences.

In which section of the memory view a statement stands: told by the grammar of what was said, not by the question.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final

from nomemory.recall.grounding.contradictions import is_passed_on
from nomemory.recall.model.evidence import Evidence, Findings, Retrieved
from nomemory.recall.model.memory_view import Draft, DraftCitation, DraftStatement, Section
from nomemory.recall.model.question import Question
from nomemory.recall.skills.loader import Skill
from nomemory.text.question_reading import QuestionReading
from nomemory.text.sentences import sentences
from nomemory.text.terms import terms

WHOLE: Final = 600
"""Characters of a message that is quoted whole. Sentences picked out of shorter ones often leave out what decides."""


def quote(content: str, reading: QuestionReading) -> str:
    """Return a passage of whole sentences, verbatim, around the one that has most words of the question."""
    if len(content) <= WHOLE:
        return content.strip()
    starts = [sentence.start for sentence in sentences(content)] or [0]
    ends = [*starts[1:], len(content)]
    asked = terms(reading.asked)
    best = max(range(len(starts)), key=lambda at: (len(asked & terms(content[starts[at] : ends[at]])), -at))
    first, last = _widened(starts, ends, best)
    return content[starts[first] : ends[last]].strip()[:WHOLE]


def _widened(starts: list[int], ends: list[int], best: int) -> tuple[int, int]:
    """Return the first and last sentence of the longest passage around one that is not too long."""
    first = last = best
    while True:
        if last + 1 < len(starts) and ends[last + 1] - starts[first] <= WHOLE:
            last += 1
        elif first > 0 and ends[last] - starts[first - 1] <= WHOLE:
            first -= 1
        else:
            return first, last


_START: Final = r"(?:^|[.!;,，。；！\n]\s*)(?:please |and |but |so |请|你)?"
_PREFERS: Final = re.compile(
    r"\bI(?:['’]d| would| do| don['’]?t| really| rather| still| always| absolutely)* (?:like|love|hate|prefer|enjoy)\b"
    r"|\bI (?:always|never)\b|\bmy favou?rite|我[^，。！？]{0,4}(?:喜欢|爱|讨厌|偏好)|我(?:从来?不|总是)",
    re.IGNORECASE,
)
"""The first person with a verb of liking, or with what it always or never does."""


_BINDS: Final = re.compile(
    rf"{_START}(?:never(?! mind)|always|don['’]?t|do not)\b"
    r"|\bI (?:can['’]?t|cannot|must(?:n['’]t)?|may not|am not allowed)\b"
    rf"|{_START}(?:别(?!人)|不要|不许|务必|必须)|我[^，。！？]{{0,4}}(?:不能|不可以|必须|不许)",
    re.IGNORECASE,
)
"""An order, or the first person with a modal verb that binds."""


def section_of(message: Retrieved) -> Section:
    """Return the section of a message: the profile, unless its speaker says in it what they like or what binds them."""
    if is_passed_on(message.content):
        return Section.PROFILE
    if _BINDS.search(message.content):
        return Section.CONSTRAINTS
    return Section.PREFERENCES if _PREFERS.search(message.content) else Section.PROFILE


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
        """Quote the evidence that most likely answers, and what took any of it back, the newest first."""
        best = chosen(findings.evidence, self._quoted)
        takers = {one.message.retracted_by for one in best}
        best += [one for one in findings.evidence if one.message.message_id in takers and one not in best]
        newest_first = sorted(best, key=_when, reverse=True)
        quotes = ((one, quote(one.message.content, question.reading)) for one in newest_first)
        return Draft(
            tuple(
                DraftStatement(section_of(one.message), text, (DraftCitation(one.message.message_id, text),))
                for one, text in quotes
            )
        )


def _when(one: Evidence) -> tuple[datetime, str]:
    return one.message.ts, one.message.message_id


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
