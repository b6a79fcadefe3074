"""Find contradictory assertions by one sender.

A contradiction is either an assertion and its denial, or two different counts of the same thing. Two messages are about
the same topic if their semantic similarity is high enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from nomemory.recall.grounding.assertions import is_quoted_text
from nomemory.recall.model.evidence import Evidence, MessageRelation, RetrievedMessage
from nomemory.recall.model.question import Question

MAX_COMPARED: Final = 4
"""Number of top evidence messages to compare."""


_NEAR_QUESTION: Final = 1.0
"""Minimum similarity to the question, in standard deviations above the mean of the user's messages."""


_YES_NO_QUESTION: Final = re.compile(
    r"^(?:so |and |but )?(?:do|does|did|is|are|am|was|were|have|has|had|can|could|should|would|will)\b"
    r"|吗[？?]?$|(.)不\1|(.)没\2|有没有|没有[？?]?$|是否|是不是",
    re.IGNORECASE,
)
_DENIAL: Final = re.compile(
    r"\b(?:never|not a (?:single )?\w+|none|not once)\b"
    r"|从来?[不没]|[没未][^，。！？]{0,4}过|一[^，。！？]{1,3}都?[不没]|绝[不没]",
    re.IGNORECASE,
)
_NEGATION: Final = re.compile(
    r"\b(?:not|no|never|none|nor|neither|nothing|nobody|nowhere|without|cannot)\b|n['’]t\b|[不没未无]|(?<![特分区级])别(?!人)",
    re.IGNORECASE,
)
_COUNT_QUESTION: Final = re.compile(r"\bhow many\b|几[个只条台辆套本]|多少个", re.IGNORECASE)
_NUMBERS: Final = "zero one two three four five six seven eight nine ten".split()  # noqa: SIM905 - reads better
_CHINESE_NUMBERS: Final = "零一二三四五六七八九十"
_VALUES: Final[Mapping[str, int]] = {
    **{word: value for value, word in enumerate(_NUMBERS)},
    **{char: value for value, char in enumerate(_CHINESE_NUMBERS)},
    "两": 2,
}
_COUNTS: Final = re.compile(
    rf"\b(\d{{1,18}}|{'|'.join(_NUMBERS)})(?: of (?:his|her|my|their|the))? ([a-z]{{3,}}s)\b"
    r"|((?<!\d)\d{1,18}|[一二两三四五六七八九十])[个只条台辆套本]([\u4e00-\u9fff]{1,2})"
)
MessagePair = tuple[RetrievedMessage, RetrievedMessage]


def find_contradictions(
    evidence: Sequence[Evidence], relations: Iterable[MessageRelation], question: Question
) -> Iterator[MessagePair]:
    """Return pairs of contradictory messages among the best evidence, older message first.

    Args:
        evidence: the evidence in ranking order.
        relations: pairs of similar messages from the same sender.
        question: the question. Contradictions are returned only for yes/no questions and counting questions.
    """
    message_by_id = {
        item.message.message_id: item.message
        for item in evidence[:MAX_COMPARED]
        if item.semantic_z_score >= _NEAR_QUESTION
    }
    for relation in relations:
        earlier, later = message_by_id.get(relation.earlier_id), message_by_id.get(relation.later_id)
        if earlier and later and _is_contradiction(earlier.content, later.content, question):
            yield earlier, later


def _is_contradiction(first: str, second: str, question: Question) -> bool:
    if is_quoted_text(first) or is_quoted_text(second):
        return False
    sentences = [sentence.strip() for sentence in question.analysis.question_sentences]
    if any(map(_COUNT_QUESTION.search, sentences)):
        return _have_different_counts(_extract_counts(first), _extract_counts(second))
    return any(map(_YES_NO_QUESTION.search, sentences)) and _denies_other_text(first, second)


def _denies_other_text(first: str, second: str) -> bool:
    """Return whether one of two texts is a denial and the other has no negation."""
    first_denies, second_denies = bool(_DENIAL.search(first)), bool(_DENIAL.search(second))
    return first_denies != second_denies and not _NEGATION.search(second if first_denies else first)


def _have_different_counts(first: Mapping[str, int], second: Mapping[str, int]) -> bool:
    return any(second.get(thing, count) != count for thing, count in first.items())


def _extract_counts(text: str) -> dict[str, int]:
    """Return the counts in a text by noun, such as {"kids": 2} for `two kids`."""
    return {
        english or chinese: _parse_count(number or char)
        for number, english, char, chinese in _COUNTS.findall(text.lower())
    }


def _parse_count(number: str) -> int:
    return int(number) if number.isdigit() else _VALUES[number]
