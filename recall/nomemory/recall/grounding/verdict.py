"""Decides whether the evidence answers the question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nomemory.recall.model.evidence import Evidence, Retrieved
from nomemory.recall.model.memory_view import Conflict, MemoryView, Verdict
from nomemory.recall.model.question import Question
from nomemory.recall.model.sufficiency import EnoughRule, Sufficiency
from nomemory.recall.passages.aspects import Asked, Content, asked, content, coverage
from nomemory.recall.passages.focus import Focus
from nomemory.recall.passages.passage import Passage
from nomemory.recall.passages.reader import PassageReader

ENOUGH = 0.55
"""The share of the question that the quoted messages must cover."""

TOGETHER = 0.4
"""How much of that share may come from several messages together; the rest comes from the best one."""

BESIDE = 0.7
"""What the rest of a quoted message counts."""

ASKED_BEFORE = 0.5
"""What a question just before a quoted message counts: an answer leaves out what it has said."""

IN_OTHER_WORDS = 0.5
"""What the text of a statement counts beyond its quotes."""


BEARS = 0.4
"""The share of the question that one side of a contradiction must cover to matter for the verdict."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """A verdict and why, and the contradictions that matter for it. The reason holds no content."""

    verdict: Verdict
    reason: str
    conflicts: tuple[Conflict, ...] = ()


@dataclass(frozen=True, slots=True)
class Grounds:
    """What a verdict rests on beside the statements: the evidence, how likely the log is to answer, and the rule."""

    evidence: Sequence[Evidence]
    sufficiency: Sufficiency | None
    rule: EnoughRule

    def suffice(self, covered: float) -> bool:
        """Return whether a question is answered of which the quotes cover so much."""
        if self.sufficiency is None:
            return covered >= ENOUGH
        if self.sufficiency.told_apart:
            return self.sufficiency.probability >= self.rule.told_apart
        return covered >= ENOUGH or self.sufficiency.probability >= self.rule.otherwise

    def why(self, covered: float) -> str:
        """Say what the verdict rests on, without content."""
        cover = f"what was found covers {covered:.0%} of the question"
        if self.sufficiency is None:
            return cover
        return f"{cover}; that the log answers it is {self.sufficiency.probability:.0%} likely"


@dataclass(slots=True)
class _Cited:
    """A message, which of its passages are quoted, and the statements that quote them."""

    message: Retrieved
    quoted: list[Passage]
    texts: list[str]


def decide(
    question: Question,
    view: MemoryView,
    conflicts: Sequence[Conflict],
    reading: PassageReader,
    grounds: Grounds,
) -> Ruling:
    """Decide by how likely the log is to answer, where that can be told, and by how much the quoted passages cover."""
    if not grounds.evidence:
        return Ruling(Verdict.INSUFFICIENT, "nothing was found")
    if not view.statements():
        return Ruling(Verdict.INSUFFICIENT, "no statement about this is proven by what was found")
    wanted = asked(question.reading)
    covered = _covered(wanted, view, reading)
    why = grounds.why(covered)
    if not grounds.suffice(covered):
        return Ruling(Verdict.INSUFFICIENT, why)
    if bearing := tuple(conflict for conflict in conflicts if _bears(conflict, wanted)):
        reason = f"pairs of statements that contradict each other: {len(bearing)}"
        return Ruling(Verdict.CONFLICTING, reason, bearing)
    return Ruling(Verdict.SUPPORTED, why)


def _bears(conflict: Conflict, wanted: Asked) -> bool:
    """Return whether a contradiction is about what is asked; always, if the question names nothing."""
    sides = (conflict.earlier, conflict.later)
    words = (" ".join([side.text, *(citation.quote for citation in side.citations)]) for side in sides)
    return not wanted.aspects or any(coverage(wanted, [(content(one), 1.0)]) >= BEARS for one in words)


def _covered(wanted: Asked, view: MemoryView, reading: PassageReader) -> float:
    """Return how much of the question is covered; all of one that names nothing to look for."""
    if not wanted.aspects:
        return 1.0
    focus = Focus(wanted, reading.retrieval)
    texts = [list(_texts(cited, reading, focus)) for cited in _cited(view, reading, focus)]
    best = max((coverage(wanted, pieces) for pieces in texts), default=0.0)
    together = coverage(wanted, [piece for pieces in texts for piece in pieces])
    return (1 - TOGETHER) * best + TOGETHER * together


def _cited(view: MemoryView, reading: PassageReader, focus: Focus) -> list[_Cited]:
    """Return the messages of which a passage about whom the question asks is quoted."""
    found: dict[str, _Cited] = {}
    for statement in view.statements():
        for citation in statement.citations:
            for passage in filter(focus.has, reading.quoted(citation)):
                cited = found.setdefault(citation.message_id, _Cited(passage.message, [], []))
                cited.quoted.append(passage)
                cited.texts.append(statement.text)
    return list(found.values())


def _texts(cited: _Cited, reading: PassageReader, focus: Focus) -> Iterator[tuple[Content, float]]:
    """Return what a message says to the question, and how much each text counts."""
    for passage in filter(focus.has, reading.passages(cited.message)):
        yield passage.content(), 1.0 if passage in cited.quoted else BESIDE
    if before := reading.question_before(cited.message):
        yield content(before.content), ASKED_BEFORE
    for text in dict.fromkeys(cited.texts):
        if text not in cited.message.content:
            yield content(text), IN_OTHER_WORDS
