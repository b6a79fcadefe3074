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
    def sender(self) -> str:
        """The sender's name, or the role if the sender has no name."""
        return self.name or self.role.value


@dataclass(frozen=True, slots=True)
class Evidence:
    """A retrieved message and its relevance to the question.

    Attributes:
        message: the message.
        score: relevance, at most about 3; comparable only within one recall.
        semantic_z_score: semantic similarity to the question, in standard deviations above the mean of the user's
            messages; 0 if unknown.
    """

    message: RetrievedMessage
    score: float
    semantic_z_score: float = 0.0


@dataclass(frozen=True, slots=True)
class Relation:
    """The ids of two related messages by the same sender.

    Attributes:
        earlier_id: id of the older message.
        later_id: id of the newer message.
        semantic_z_score: semantic similarity, in standard deviations above the mean of the hits.
        shared_term_share: IDF-weighted share of words that both messages contain, 0 to 1.
    """

    earlier_id: str
    later_id: str
    semantic_z_score: float
    shared_term_share: float


@dataclass(slots=True)
class Retrieval:
    """All messages that a recall has retrieved, by id. Other messages cannot be cited."""

    _messages: dict[str, RetrievedMessage] = field(default_factory=dict)

    def add(self, messages: Iterable[RetrievedMessage]) -> int:
        """Add messages and return the number of new ones."""
        previous_count = len(self._messages)
        for message in messages:
            self._messages.setdefault(message.message_id, message)
        return len(self._messages) - previous_count

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
