"""Distinguish conversation turns from memory queries by the share of the text that consists of statements."""

from __future__ import annotations

from typing import Final

from nomemory.text.language import FIRST_PERSON, SECOND_PERSON
from nomemory.text.question_detection import announces_question, contains_question, is_request, is_statement
from nomemory.text.sentences import split_sentence_texts

_MIN_STATED_SHARE: Final = 0.3
"""Minimum share of a turn's characters that belong to statements."""


def is_conversation_turn(text: str) -> bool:
    """Return whether a text reads like a conversation turn rather than a memory query.

    A turn contains a statement in the first or second person and may also contain questions. A text that announces its
    question ("what I want to know is …") is a query, regardless of the length of its introduction.
    """
    sentences = split_sentence_texts(text)
    if any(map(announces_question, sentences)):
        return False
    statements = [sentence for sentence in sentences if not contains_question(sentence) and not is_request(sentence)]
    if len(statements) == len(sentences):
        return is_statement(text)
    has_person = FIRST_PERSON.search(text) or SECOND_PERSON.search(text)
    return bool(has_person) and sum(map(len, statements)) > _MIN_STATED_SHARE * len(text)
