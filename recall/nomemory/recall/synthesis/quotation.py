"""Select the passage of a message to quote: a short message in full, or complete sentences of a long message."""

from __future__ import annotations

from typing import Final

from nomemory.text.question_analysis import QuestionAnalysis
from nomemory.text.sentences import split_sentences
from nomemory.text.terms import extract_terms

MAX_PASSAGE_CHARS: Final = 600
"""Maximum size of a message that is quoted in full. Excerpts of shorter messages often omit the decisive words."""


def select_passage(content: str, analysis: QuestionAnalysis) -> str:
    """Return complete sentences of a message, around the sentence that has the most words of the question."""
    if len(content) <= MAX_PASSAGE_CHARS:
        return content.strip()
    starts = [sentence.start for sentence in split_sentences(content)] or [0]
    ends = [*starts[1:], len(content)]
    question_terms = extract_terms(analysis.question_text)
    best = max(
        range(len(starts)), key=lambda at: (len(question_terms & extract_terms(content[starts[at] : ends[at]])), -at)
    )
    first, last = _widen_passage(starts, ends, best)
    return content[starts[first] : ends[last]].strip()[:MAX_PASSAGE_CHARS]


def _widen_passage(starts: list[int], ends: list[int], best: int) -> tuple[int, int]:
    """Extend a passage from a sentence up to the limit; return the indexes of its first and last sentence."""
    first = last = best
    while True:
        if last + 1 < len(starts) and ends[last + 1] - starts[first] <= MAX_PASSAGE_CHARS:
            last += 1
        elif first > 0 and ends[last] - starts[first - 1] <= MAX_PASSAGE_CHARS:
            first -= 1
        else:
            return first, last
