"""Whom a question is about, among those who speak and those who are spoken of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import regex  # type: ignore[import-untyped]  # it ships without types

from nomemory.recall.model.evidence import Retrieved
from nomemory.recall.model.question import Role
from nomemory.recall.passages.aspects import Asked
from nomemory.recall.passages.modality import SELF, UNNAMED
from nomemory.recall.passages.passage import Passage
from nomemory.text.normalisation import plain

RELATIONS = (
    *("mother", "father", "brother", "sister", "daughter", "son", "partner", "marriage"),
    *("pet", "cat", "dog"),
)
"""Concepts that stand for somebody else: a question that names one of them is not about its asker alone."""

SHORT_NAME = 3
"""Letters of the shortest form of a name: Mel, for Melanie."""

_WORD = regex.compile(r"[a-z]+")
_WHO = regex.compile(r"谁|哪位|的人|\bwho(?:se|m)?\b|朋友|同事|\bfriends?\b|\bcolleagues?\b")
_ASSISTANT = regex.compile(
    r"你(?:之前|上次|曾经|当时)?(?:答应|承诺|保证|建议|推荐|说过?(?!我)|提醒)"
    r"|\b(?:did|have|had) you\b|\byou (?:promised?|said|suggest\w*|recommend\w*|told|advised"
    r"|offered)\b|\byour (?:advice|promise)"
)


class Focus:
    """Tells which passages are about whom a question asks.

    That is the asker, unless the question names somebody else: a person who speaks, a relation, or "who". Who speaks
    most among the messages of role user is the asker; others may use their telephone. What a tool says may be about
    anybody whom it names, but a tool never speaks for the asker.

    Args:
        question: taken apart.
        messages: what was retrieved.
    """

    def __init__(self, question: Asked, messages: Iterable[Retrieved]) -> None:
        self._text = question.text
        self._anybody = question.names(*RELATIONS) or bool(_WHO.search(question.text))
        self._assistant = bool(_ASSISTANT.search(question.text))
        names = Counter(plain(message.name) for message in messages if message.role is Role.USER)
        self._asker = max(names, key=lambda name: (names[name], not name), default="")

    def _names(self, name: str) -> bool:
        """Return whether the question has a name, or its short form of three letters or more."""
        return name in self._text or any(
            len(word) >= SHORT_NAME and name.startswith(word) for word in _WORD.findall(self._text)
        )

    def hears(self, message: Retrieved) -> bool:
        """Return whether anything in a message could be about whom the question asks."""
        if message.role is Role.ASSISTANT:
            return self._assistant or bool(message.name)
        return message.role is not Role.SYSTEM

    def has(self, passage: Passage) -> bool:
        """Return whether a passage is about whom the question asks."""
        message = passage.message
        name = plain(message.person)
        if not self.hears(message):
            return False
        if name and self._names(name.split()[0]):
            return True
        if message.role is Role.ASSISTANT:
            return self._assistant and not name
        if self._anybody:
            return True
        if passage.subject == SELF:
            return message.role is not Role.TOOL and name == self._asker
        return passage.subject != UNNAMED and passage.subject in self._text
