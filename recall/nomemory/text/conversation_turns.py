"""Tell a turn of a conversation from a question to a memory, by the sentences that state something."""

from __future__ import annotations

from typing import Final

from nomemory.text.asking import announces_question, asks, is_statement, requests
from nomemory.text.language import FIRST_PERSON, SECOND_PERSON
from nomemory.text.sentences import sentence_texts

_MIN_STATED_SHARE: Final = 0.3
"""Share of the characters of a turn, at least, that belong to sentences that state something."""


def is_conversation_turn(text: str) -> bool:
    """Return whether a text reads like a turn of a conversation rather than a question to a memory.

    A turn states something in the first or second person, and may ask besides. A text that announces its question
    ("what I want to know is …") is a question, however long its introduction is.
    """
    sentences = sentence_texts(text)
    if any(map(announces_question, sentences)):
        return False
    stated = [sentence for sentence in sentences if not asks(sentence) and not requests(sentence)]
    if len(stated) == len(sentences):
        return is_statement(text)
    has_person = FIRST_PERSON.search(text) or SECOND_PERSON.search(text)
    return bool(has_person) and sum(map(len, stated)) > _MIN_STATED_SHARE * len(text)
