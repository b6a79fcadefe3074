"""Messages that a recall has retrieved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from nomemory.recall.model.question import Role
from nomemory.recall.model.sufficiency import Sufficiency


@dataclass(frozen=True, slots=True)
class RetrievedMessage:
    """A message, with the ids of the messages that it retracts and of those that retract it."""

    message_id: str
    ts: datetime
    role: Role
    content: str
    name: str = ""
    conversation_id: str = ""
    retracts: tuple[str, ...] = ()
    retracted_by: str = ""

    @property
    def speaker(self) -> str:
        """The sender's name, or the role if the sender has no name."""
        return self.name or self.role.value


@dataclass(frozen=True, slots=True)
class Evidence:
    """A retrieved message and its relevance to the question.

    Attributes:
        message: the message.
        score: relevance, at most about 3; comparable only within one recall.
        deviations: semantic similarity to the question, in standard deviations above the mean of the user's messages; 0
            if unknown.
    """

    message: RetrievedMessage
    score: float
    deviations: float = 0.0


@dataclass(frozen=True, slots=True)
class Relation:
    """The ids of two related messages by the same sender.

    Attributes:
        earlier: id of the older message.
        later: id of the newer message.
        nearness: semantic similarity, in standard deviations above the mean of the hits.
        shared: IDF-weighted share of words that both messages contain, 0 to 1.
    """

    earlier: str
    later: str
    nearness: float
    shared: float


@dataclass(slots=True)
class Retrieval:
    """All messages that a recall has retrieved, by id. Other messages cannot be cited."""

    _messages: dict[str, RetrievedMessage] = field(default_factory=dict)

    def add(self, messages: Iterable[RetrievedMessage]) -> int:
        """Add messages and return the number of new ones."""
        before = len(self._messages)
        for message in messages:
            self._messages.setdefault(message.message_id, message)
        return len(self._messages) - before

    def get(self, message_id: str) -> RetrievedMessage | None:
        """Return a retrieved message, or None."""
        return self._messages.get(message_id)

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[RetrievedMessage]:
        return iter(self._messages.values())


@dataclass(frozen=True, slots=True)
class Findings:
    """The results of the search phase.

    Attributes:
        evidence: best first; messages with assertions come before messages without.
        retrieval: all retrieved messages.
        relations: pairs of related messages, ordered by the newer message.
        sufficiency: likelihood that the message log contains the answer; None if no search estimated it.
    """

    evidence: tuple[Evidence, ...]
    retrieval: Retrieval
    relations: tuple[Relation, ...] = ()
    sufficiency: Sufficiency | None = None
