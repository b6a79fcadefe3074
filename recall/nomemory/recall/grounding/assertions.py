"""Tell whether a message asserts something and whose words it holds, by its speaker and form, never by topic."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from nomemory.recall.model.evidence import Retrieved
from nomemory.recall.model.memory_view import Attribution
from nomemory.recall.model.question import Question, Role
from nomemory.text.asking import ends_asking, only_asks
from nomemory.text.language import FIRST_PERSON
from nomemory.text.terms import numbers, terms

_REPEATED: Final = 0.75
"""Share of a message's words that stand in the question from which on it asks the same: it says nothing new."""


_FEWEST_WORDS: Final = 3
"""Content words of a message that says something whatever the question."""


_FENCED: Final = re.compile(r"```|^\s*>", re.MULTILINE)


_INTRODUCED: Final = re.compile(r"\A[^\n]{0,200}[:：]\s*\n+\s*\S")


_MANY_LINES: Final = 6


def is_named(messages: Iterable[Retrieved]) -> bool:
    """Return whether most messages say who spoke by a name: then people talk with each other, and roles say nothing."""
    names = [bool(message.name) for message in messages]
    return 2 * sum(names) > len(names)


def asserts(message: Retrieved, question: Question, *, named: bool) -> bool:
    """Return whether a message can state what is asked: who says it could know, and it does not only ask.

    An earlier asking of the same question states nothing, whatever stands around it.

    Args:
        message: what was said.
        question: may ask for what somebody else than the user said.
        named: whether speakers have names.
    """
    is_heard = _is_heard(message, question, named=named)
    return is_heard and not only_asks(message.content) and not _asks_the_same(message.content, question)


def states(message: Retrieved, question: Question) -> bool:
    """Return whether a message can be quoted as an answer: it has content, and does not only ask.

    Between people with names a question answers as often as not; there only content, and not to ask the same, count.
    """
    if not has_content(message.content, question) or _asks_the_same(message.content, question):
        return False
    return bool(message.name) or not only_asks(message.content)


def has_content(content: str, question: Question) -> bool:
    """Return whether a text says something by itself: “perfect, thx” and emoji say nothing.

    A text of one or two content words says something if one of them stands in the question, or if it has a number or
    speaks of its speaker. Of 5,000 labelled messages of five sets, four were shorter than three content words.
    """
    words = terms(content)
    if len(words) >= _FEWEST_WORDS:
        return True
    return bool(numbers(content) or words & terms(question.reading.asked) or (words and FIRST_PERSON.search(content)))


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
