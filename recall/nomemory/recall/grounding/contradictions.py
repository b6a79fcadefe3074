"""Finds two assertions of one speaker that cannot both hold. It does not judge between them: both stay.

There are two kinds: a flat denial beside an assertion of the same, and two counts of the same thing. No list says which
things people contradict themselves about. That two messages speak of one thing is told by their nearness.

Whether a message asserts something, and whose words it holds: told by who speaks and by form, never by topic.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from nomemory.recall.model.evidence import Evidence, Relation, Retrieved
from nomemory.recall.model.memory_view import Attribution
from nomemory.recall.model.question import Question, Role
from nomemory.text.asking import ends_asking, only_asks
from nomemory.text.terms import terms

_REPEATED: Final = 0.75
"""Share of a message's words that stand in the question from which on it asks the same: it says nothing new."""


_FENCED: Final = re.compile(r"```|^\s*>", re.MULTILINE)
_INTRODUCED: Final = re.compile(r"\A[^\n]{0,200}[:：]\s*\n+\s*\S")
_MANY_LINES: Final = 6


def is_named(messages: Iterable[Retrieved]) -> bool:
    """Return whether most messages say who spoke by a name: then people talk with each other, and roles say nothing."""
    names = [bool(message.name) for message in messages]
    return 2 * sum(names) > len(names)


def asserts(message: Retrieved, question: Question, *, named: bool) -> bool:
    """Return whether a message can state what is asked: it is said by who could say it, and does not only ask.

    An earlier asking of the same question states nothing, whatever stands around it.

    Args:
        message: what was said.
        question: may ask for what somebody else than the user said.
        named: whether speakers have names.
    """
    is_heard = _is_heard(message, question, named=named)
    return is_heard and not only_asks(message.content) and not _asks_the_same(message.content, question)


def attribution(message: Retrieved) -> Attribution:
    """Return whose words a message holds; among people with names that is not told."""
    if message.role is not Role.USER:
        return Attribution.OTHER
    if is_passed_on(message.content):
        return Attribution.QUOTED
    return Attribution.UNSPECIFIED if message.name else Attribution.USER


def is_passed_on(content: str) -> bool:
    """Return whether the form of a text shows a pasted block, a forwarded message, a quotation or code."""
    block = _INTRODUCED.match(content) or content.strip().count("\n") + 1 >= _MANY_LINES
    return bool(block or _FENCED.search(content))


def _is_heard(message: Retrieved, question: Question, *, named: bool) -> bool:
    if question.role not in {None, Role.ANY}:
        return message.role is question.role
    return named or message.role is Role.USER or question.reading.asks_of_assistant


def _asks_the_same(content: str, question: Question) -> bool:
    words = terms(content) if ends_asking(content.rstrip()) else frozenset[str]()
    return bool(words) and len(words & terms(question.reading.asked)) >= _REPEATED * len(words)


LOOKED_AT: Final = 4
"""Of the evidence, the best messages are held against each other."""


_NEAR_QUESTION: Final = 1.0
"""Standard deviations that a message must lie nearer to the question than the user's messages usually do."""


_POLAR: Final = re.compile(
    r"^(?:so |and |but )?(?:do|does|did|is|are|am|was|were|have|has|had|can|could|should|would|will)\b"
    r"|吗[？?]?$|(.)不\1|(.)没\2|有没有|没有[？?]?$|是否|是不是",
    re.IGNORECASE,
)
_DENIES_FLATLY: Final = re.compile(
    r"\b(?:never|not a (?:single )?\w+|none|not once)\b"
    r"|从来?[不没]|[没未][^，。！？]{0,4}过|一[^，。！？]{1,3}都?[不没]|绝[不没]",
    re.IGNORECASE,
)
_DENIES: Final = re.compile(
    r"\b(?:not|no|never|none|nor|neither|nothing|nobody|nowhere|without|cannot)\b|n['’]t\b|[不没未无]|(?<![特分区级])别(?!人)",
    re.IGNORECASE,
)
_ASKS_COUNT: Final = re.compile(r"\bhow many\b|几[个只条台辆套本]|多少个", re.IGNORECASE)
_NUMBERS: Final = "zero one two three four five six seven eight nine ten".split()  # noqa: SIM905 - reads better
_CHINESE_NUMBERS: Final = "零一二三四五六七八九十"
_VALUES: Final[Mapping[str, int]] = {
    **{word: value for value, word in enumerate(_NUMBERS)},
    **{char: value for value, char in enumerate(_CHINESE_NUMBERS)},
    "两": 2,
}
_COUNTS: Final = re.compile(
    rf"\b(\d+|{'|'.join(_NUMBERS)})(?: of (?:his|her|my|their|the))? ([a-z]{{3,}}s)\b"
    r"|(\d+|[一二两三四五六七八九十])[个只条台辆套本]([\u4e00-\u9fff]{1,2})"
)
Pair = tuple[Retrieved, Retrieved]


def contradictions(evidence: Sequence[Evidence], relations: Iterable[Relation], question: Question) -> Iterator[Pair]:
    """Return pairs among the best evidence that contradict each other, what was said first in front.

    Args:
        evidence: best first, what asserts something before what does not.
        relations: which messages of one speaker are near each other.
        question: only where it asks whether, or how many, does a contradiction show.
    """
    near = {one.message.message_id: one.message for one in evidence[:LOOKED_AT] if one.deviations >= _NEAR_QUESTION}
    for relation in relations:
        earlier, later = near.get(relation.earlier), near.get(relation.later)
        if earlier and later and _contradict(earlier.content, later.content, question):
            yield earlier, later


def _contradict(one: str, other: str, question: Question) -> bool:
    if is_passed_on(one) or is_passed_on(other):
        return False
    sentences = [sentence.strip() for sentence in question.reading.sentences]
    if any(map(_ASKS_COUNT.search, sentences)):
        return _counts_differ(_counted(one), _counted(other))
    return any(map(_POLAR.search, sentences)) and _denies_the_other(one, other)


def _denies_the_other(one: str, other: str) -> bool:
    """Return whether just one of two texts denies flatly, and the other denies nothing at all."""
    first, second = bool(_DENIES_FLATLY.search(one)), bool(_DENIES_FLATLY.search(other))
    return first != second and not _DENIES.search(other if first else one)


def _counts_differ(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    return any(other.get(thing, count) != count for thing, count in one.items())


def _counted(text: str) -> dict[str, int]:
    """Return how many of what a text counts: `two kids` is {"kids": 2}."""
    return {
        english or chinese: _value(number or char) for number, english, char, chinese in _COUNTS.findall(text.lower())
    }


def _value(number: str) -> int:
    return int(number) if number.isdigit() else _VALUES[number]
