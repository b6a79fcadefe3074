"""The passages of a message that could be statements: what is said outright, sentence by sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from nomemory.recall.model.evidence import Retrieved
from nomemory.recall.passages.aspects import Content, content
from nomemory.recall.passages.modality import Voice, voices
from nomemory.text.sentences import Clause, Sentence, sentences

READ_CHARS = 4_000
"""Code points of a message that are read; what stands further down is not quoted by rules."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A run of clauses of one sentence with one subject."""

    message: Retrieved
    clauses: tuple[Clause, ...]
    subject: str

    @property
    def start(self) -> int:
        """Where it starts, in code points of the message."""
        return self.clauses[0].start

    @property
    def end(self) -> int:
        """Where it ends, in code points of the message, exclusive."""
        return self.clauses[-1].end

    @property
    def text(self) -> str:
        """The words, verbatim."""
        return self.message.content[self.start : self.end]

    @property
    def masked(self) -> str:
        """The words without what they quote."""
        return ", ".join(clause.masked for clause in self.clauses)

    def content(self) -> Content:
        """Return what it is about; who speaks is a part of that."""
        return content(f"{self.message.name}: {self.text}" if self.message.name else self.text)

    def overlaps(self, start: int, end: int) -> bool:
        """Return whether a stretch of the message has a part of this passage."""
        return self.start < end and start < self.end


def passages(message: Retrieved) -> list[Passage]:
    """Return what a message states, in its order; questions, orders and suppositions are left out."""
    return [
        Passage(message, clauses, subject)
        for sentence in sentences(message.content[:READ_CHARS])
        for clauses, subject in _runs(sentence)
    ]


def _runs(sentence: Sentence) -> Iterator[tuple[tuple[Clause, ...], str]]:
    said = zip(sentence.clauses, voices(sentence), strict=True)
    for (states, subject), run in groupby(said, key=_key):
        if states:
            yield tuple(clause for clause, _ in run), subject


def _key(said: tuple[Clause, Voice]) -> tuple[bool, str]:
    return said[1].states, said[1].subject
