"""Split Chinese and English text into sentences and clauses, and find quotations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import regex  # type: ignore[import-untyped]  # the package has no type information

HIDDEN: Final = "\ufffc"
"""Replacement for each quoted character in a masked text."""
CLAUSE_END: Final = regex.compile(r"[，：]|[,:](?!\d)|——|\s[–—-]\s")
_QUOTED: Final = regex.compile(
    "|".join(f"{a}([^{a}{b}\n]{{1,200}}){b}" for a, b in ("“”", "「」", "『』", "《》", '""'))
)
_ABBREVIATION: Final = r"(?<!\b(?:Mrs?|Ms|Dr|St|No|vs|etc|e\.g|i\.e|a\.m|p\.m|approx|[A-Z]))"
SENTENCE_END: Final = regex.compile(
    rf"(?<![。！？!?；;\n…])(?:[。！？!?；;\n]|…+|{_ABBREVIATION}\.(?=[\s”’\"')）]|$))++[”’\"')）】]*+(?!的)"
)
"""Pattern for the end of a sentence. No sentence begins with 的."""
_EDGES: Final = " \t\r\n\u3000，,；;：:。.—–-"


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause with its code point offsets.

    In `masked_text`, a placeholder replaces each character between quotation marks.
    """

    text: str
    start: int
    end: int
    masked_text: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence as a sequence of clauses."""

    clauses: tuple[Clause, ...]

    @property
    def start(self) -> int:
        """The start offset of the sentence, in code points."""
        return self.clauses[0].start

    @property
    def end(self) -> int:
        """The exclusive end offset of the sentence, in code points."""
        return self.clauses[-1].end

    @property
    def masked_text(self) -> str:
        """The text of the sentence with masked quotations."""
        return ", ".join(clause.masked_text for clause in self.clauses)


def find_quotations(text: str) -> list[str]:
    """Return the quotations and titles in a text that have at most 200 characters."""
    return [match[match.lastindex] for match in _QUOTED.finditer(text)]


def remove_quotations(text: str) -> str:
    """Remove quotations from a text."""
    return str(_QUOTED.sub(" ", text))


def mask_quotations(text: str) -> str:
    """Mask the quotations in a text, and preserve the length of the text."""
    return str(_QUOTED.sub(lambda match: match[0][0] + HIDDEN * (len(match[0]) - 2) + match[0][-1], text))


def split_sentence_texts(text: str) -> list[str]:
    """Return the sentences of a text with their end marks."""
    ends = [match.end() for match in SENTENCE_END.finditer(mask_quotations(text))]
    return [sentence for start, end in pairwise([0, *ends, len(text)]) if (sentence := text[start:end].strip())]


def split_sentences(text: str) -> list[Sentence]:
    """Split a text into sentences. Quotations that `find_quotations` returns are never split."""
    mask = mask_quotations(text)
    return [
        Sentence(clauses)
        for start, end in _split_ranges(mask, SENTENCE_END, 0, len(mask))
        if (clauses := tuple(_split_clauses(text, mask, start, end)))
    ]


def _split_clauses(text: str, mask: str, start: int, end: int) -> Iterator[Clause]:
    for left, right in _split_ranges(mask, CLAUSE_END, start, end):
        first, last = _trim_range(text, left, right)
        if first < last:
            yield Clause(text[first:last], first, last, mask[first:last])


def _split_ranges(mask: str, ends: regex.Pattern[str], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of the text between end marks."""
    for match in ends.finditer(mask, start, end):
        yield start, match.start()
        start = match.end()
    yield start, end


def _trim_range(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start] in _EDGES:
        start += 1
    while start < end and text[end - 1] in _EDGES:
        end -= 1
    return start, end
