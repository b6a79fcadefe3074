"""Detect whether a message asserts something, and whether its text is the user's own, quoted or from another author."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from nomemory.recall.model.evidence import RetrievedMessage
from nomemory.recall.model.memory_view import Attribution
from nomemory.recall.model.question import Question, Role
from nomemory.text.language import FIRST_PERSON
from nomemory.text.question_detection import contains_only_questions, ends_in_question
from nomemory.text.terms import extract_numbers, extract_terms

_MIN_REPETITION_SHARE: Final = 0.75
"""A message repeats the question if the question contains at least this share of the message's words."""


_MIN_CONTENT_WORDS: Final = 3
"""Minimum number of content words in a message that is meaningful for any question."""


_FENCED: Final = re.compile(r"```|^[^\S\n]*>", re.MULTILINE)


_INTRODUCED: Final = re.compile(r"\A[^\n]{0,200}[:：][^\S\n]*\n\s*\S")


_MANY_LINES: Final = 6


def have_sender_names(messages: Iterable[RetrievedMessage]) -> bool:
    """Return whether most messages have a sender name, which is typical of conversations between people."""
    names = [bool(message.name) for message in messages]
    return 2 * sum(names) > len(names)


def can_answer_question(message: RetrievedMessage, question: Question, *, has_sender_names: bool) -> bool:
    """Return whether a message asserts something and its sender may know the answer to the question.

    A message that repeats the question is not an assertion.

    Args:
        message: a message of the user's conversations.
        question: the question, which may be about a sender other than the user.
        has_sender_names: the result of `have_sender_names` for all messages of the recall.
    """
    may_know = _sender_may_know(message, question, has_sender_names=has_sender_names)
    return (
        may_know and not contains_only_questions(message.content) and not _repeats_question(message.content, question)
    )


def is_quotable(message: RetrievedMessage, question: Question) -> bool:
    """Return whether a message can be quoted as an answer: it has content and does not consist only of questions.

    If the sender has a name, a message of questions is also quotable, unless it repeats the user's question.
    """
    if not has_content(message.content, question) or _repeats_question(message.content, question):
        return False
    return bool(message.name) or not contains_only_questions(message.content)


def has_content(content: str, question: Question) -> bool:
    """Return whether a text is meaningful on its own, unlike "Perfect, thx" or emoji.

    A text with fewer than three content words is meaningful only if it has a number, a word of the question, or a
    content word and a first-person pronoun. Only four of 5,000 labeled messages in five datasets had fewer than three
    content words.
    """
    words = extract_terms(content)
    if len(words) >= _MIN_CONTENT_WORDS:
        return True
    return bool(
        extract_numbers(content)
        or words & extract_terms(question.analysis.question_text)
        or (words and FIRST_PERSON.search(content))
    )


def determine_attribution(message: RetrievedMessage) -> Attribution:
    """Return whether the text of a message is the user's own, quoted, or from another author.

    If the user's message has a sender name, the result is UNSPECIFIED unless the text is quoted.
    """
    if message.role is not Role.USER:
        return Attribution.OTHER
    if is_quoted_text(message.content):
        return Attribution.QUOTED
    return Attribution.UNSPECIFIED if message.name else Attribution.USER


def is_quoted_text(content: str) -> bool:
    """Return whether a text has the form of a pasted block, a forwarded message, a quotation or code."""
    block = _INTRODUCED.match(content) or content.strip().count("\n") + 1 >= _MANY_LINES
    return bool(block or _FENCED.search(content))


def _sender_may_know(message: RetrievedMessage, question: Question, *, has_sender_names: bool) -> bool:
    if question.role not in {None, Role.ANY}:
        return message.role is question.role
    return has_sender_names or message.role is Role.USER or question.analysis.asks_about_assistant


def _repeats_question(content: str, question: Question) -> bool:
    words = extract_terms(content) if ends_in_question(content.rstrip()) else frozenset[str]()
    return bool(words) and len(words & extract_terms(question.analysis.question_text)) >= _MIN_REPETITION_SHARE * len(
        words
    )
