"""Whether a message asserts something, and whose words it holds: told by who speaks and by form, never by topic."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from nomemory.recall.model.evidence import Retrieved
from nomemory.recall.model.memory_view import Attribution
from nomemory.recall.model.question import Question, Role
from nomemory.text.language import Language, language_of

_SENTENCE: Final = re.compile(r"(?:[^。！？!?.\n]|\.(?!\s))+[。！？!?.]*")
_MARKED: Final = re.compile(r"[?？][\s\"”'）)]*$")
_ASKS_CHINESE: Final = re.compile(
    r"什么|怎么|怎样|如何|多少|多久|多长|多大|为什么|哪|谁|几[点号个时天次]|吗|呢$|(.)不\1|(.)没\2|有没有|是否|啥"
)
_ASKS_ENGLISH: Final = re.compile(
    r"^\W*(?:(?:and|so|ok|but|hey|hi|also|btw)[,\s]+)*(?:whats?|what's|which|who|whose|when|where|why|how"
    r"|is|are|am|was|were|do|does|did|can|could|should|would|will|has|have|had)\b",
    re.IGNORECASE,
)
"""The closed classes of words that open a question, for people who type no question mark."""
_CLAUSE: Final = re.compile(r"[，,；;]")
_LONGEST_CHINESE: Final = 30
_LONGEST_ENGLISH: Final = 90
"""Characters of a sentence without a question mark that can still be a question."""
_SHORTEST: Final = 3
_FENCED: Final = re.compile(r"```|^\s*>", re.MULTILINE)
_INTRODUCED: Final = re.compile(r"\A[^\n]{0,200}[:：]\s*\n+\s*\S")
_MANY_LINES: Final = 6


def is_named(messages: Iterable[Retrieved]) -> bool:
    """Return whether most messages say who spoke by a name: then people talk with each other, and roles say nothing."""
    names = [bool(message.name) for message in messages]
    return 2 * sum(names) > len(names)


def asserts(message: Retrieved, question: Question, *, named: bool) -> bool:
    """Return whether a message can state what is asked: it is said by who could say it, and does not only ask.

    Args:
        message: what was said.
        question: may ask for what somebody else than the user said.
        named: whether speakers have names.
    """
    return _is_heard(message, question, named=named) and not only_asks(message.content)


def only_asks(content: str) -> bool:
    """Return whether every sentence of a message's first line asks, with or without a question mark."""
    first_line = content.strip().partition("\n")[0]
    sentences = [found.strip() for found in _SENTENCE.findall(first_line)]
    sentences = [sentence for sentence in sentences if len(sentence) >= _SHORTEST]
    return bool(sentences) and all(map(_asks, sentences))


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


def _last_clause(sentence: str) -> str:
    """Return what a sentence ends with: "I wonder what to give her, the 14th is near" states a date."""
    return next((clause for clause in reversed(_CLAUSE.split(sentence)) if len(clause) >= _SHORTEST), sentence)


def _asks(sentence: str) -> bool:
    if _MARKED.search(sentence):
        return True
    if language_of(sentence) is Language.CHINESE:
        return len(sentence) <= _LONGEST_CHINESE and _ASKS_CHINESE.search(_last_clause(sentence)) is not None
    return len(sentence) <= _LONGEST_ENGLISH and _ASKS_ENGLISH.search(sentence) is not None
