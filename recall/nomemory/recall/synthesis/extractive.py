"""A synthesiser without a model: its statements are the passages of the evidence that bear on the question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

import regex  # type: ignore[import-untyped]  # it ships without types

from nomemory.recall.grounding.citations import MAX_TEXT_CHARS
from nomemory.recall.model.evidence import Evidence, Retrieved
from nomemory.recall.model.memory_view import DraftCitation, DraftStatement
from nomemory.recall.model.question import Question
from nomemory.recall.passages.aspects import Asked, asked, content, coverage
from nomemory.recall.passages.focus import Focus
from nomemory.recall.passages.passage import READ_CHARS, Passage, passages
from nomemory.recall.skills.skill import Skill
from nomemory.recall.synthesis.sections import section_of

MOST = 8
"""Statements in all."""

MOST_PER_MESSAGE = 3
"""Statements out of one message."""

LONG_WIDTH = 160
"""Width of a passage that is cut down to the clauses that bear on the question; a Chinese character counts two."""

RELEVANT = 0.2
"""How much of the question a passage must cover, of 1."""

BY_RANK = 0.4
"""The part of a passage's score that comes from how its message was ranked."""


_NAMED = regex.compile(r"[“「《]([^“”「」《》，。,.]{2,12})[”」》]")
"""What a passage introduces by name."""


class _Candidate(NamedTuple):
    score: float
    passage: Passage


class RulesSynthesiser:
    """Implements `Synthesiser`. It keeps nothing between recalls."""

    name: ClassVar[str] = "rules"

    async def draft(self, question: Question, skill: Skill, evidence: Sequence[Evidence]) -> list[DraftStatement]:
        """Draft at most eight statements, best first, each of them a passage of the evidence, verbatim."""
        del skill  # it tells models how to write; these statements are not written
        return extract(question, evidence)


def extract(question: Question, evidence: Sequence[Evidence]) -> list[DraftStatement]:
    """Return the passages that bear on a question, best first, as statements that quote themselves."""
    wanted = asked(question.reading)
    focus = Focus(wanted, (one.message for one in evidence))
    top = max((one.score for one in evidence), default=0.0)
    found: dict[str, _Candidate] = {}
    for one in evidence:
        rank = one.score / top if top > 0 else 1.0
        for score, bearing in _bearing(one.message, wanted, focus):
            found.setdefault(bearing.text, _Candidate(score * (1 - BY_RANK + BY_RANK * rank), bearing))
    chosen = sorted(found.values(), key=lambda candidate: candidate.score, reverse=True)
    linked = _linked([candidate.passage for candidate in chosen], evidence, focus)
    return [_statement(one) for one in [*(candidate.passage for candidate in chosen), *linked][:MOST]]


def _linked(chosen: Sequence[Passage], evidence: Sequence[Evidence], focus: Focus) -> list[Passage]:
    """Return further passages about what the chosen ones name: “X” is the code name, and, elsewhere, X is late."""
    quoted = {one.message.message_id for one in chosen}
    names = {name for one in chosen for name in _NAMED.findall(one.text)}
    if not names:
        return []
    return [
        passage
        for one in evidence
        if one.message.message_id not in quoted
        for passage in passages(one.message)
        if focus.has(passage) and any(name in passage.text for name in names)
    ]


def _bearing(message: Retrieved, wanted: Asked, focus: Focus) -> list[_Candidate]:
    """Return the passages of a message that bear on the question; the whole message is what they are read in."""
    if not focus.hears(message):
        return []
    own = [(_relevance(one, wanted), one) for one in passages(message) if focus.has(one)]
    bearing = [(share, one) for share, one in own if share >= RELEVANT]
    around = coverage(wanted, [(content(message.content[:READ_CHARS]), 1.0)]) if bearing else 0.0
    candidates = [_Candidate(max(share, (share + around) / 2), _concise(one, wanted)) for share, one in bearing]
    return sorted(candidates, key=lambda candidate: candidate.score, reverse=True)[:MOST_PER_MESSAGE]


def _relevance(one: Passage, wanted: Asked) -> float:
    """Return how much of a question a passage covers; all of one that names nothing."""
    return coverage(wanted, [(one.content(), 1.0)]) if wanted.aspects else 1.0


def _concise(one: Passage, wanted: Asked) -> Passage:
    """Cut a long passage down to its clauses from the first that bears on the question to the last."""
    if _width(one.text) <= LONG_WIDTH:
        return one
    bearing = [
        index for index, clause in enumerate(one.clauses) if coverage(wanted, [(content(clause.text), 1.0)]) >= RELEVANT
    ]
    if not bearing:
        return one
    return replace(one, clauses=one.clauses[bearing[0] : bearing[-1] + 1])


def _width(text: str) -> int:
    return sum(1 if character.isascii() else 2 for character in text)


def _statement(one: Passage) -> DraftStatement:
    text = one.text[:MAX_TEXT_CHARS].rstrip()
    return DraftStatement(section_of(text), text, (DraftCitation(one.message.message_id, text),))
