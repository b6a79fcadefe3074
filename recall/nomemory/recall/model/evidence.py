"""Retrieved messages, their relevance, and relations between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from nomemory.recall.model.question import Role
from nomemory.recall.model.sufficiency import Sufficiency


@dataclass(frozen=True, slots=True)
class RetrievedMessage:
    """A message that a search returned. `retracted_by` is the id of the message that retracts it, or empty."""

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
        score: relevance to the question; higher is better. Scores of different recalls cannot be compared.
        semantic_z_score: semantic similarity to the question, in standard deviations above the mean of the user's
            messages; 0 if unknown.
    """

    message: RetrievedMessage
    score: float
    semantic_z_score: float = 0.0


@dataclass(frozen=True, slots=True)
class MessageRelation:
    """Two messages by the same sender on the same topic; the later one may supersede the earlier one.

    Attributes:
        semantic_z_score: semantic similarity of the two messages, in standard deviations above the mean of the hits.
        shared_term_share: IDF-weighted share of the words that occur in both messages, 0 to 1.
    """

    earlier_id: str
    later_id: str
    semantic_z_score: float
    shared_term_share: float


@dataclass(slots=True)
class RetrievedMessages:
    """The messages that a recall has retrieved so far, by id. Only these messages can be cited."""

    _messages: dict[str, RetrievedMessage] = field(default_factory=dict)

    def add_messages(self, messages: Iterable[RetrievedMessage]) -> int:
        """Add messages, and return how many of them were not retrieved before."""
        previous_count = len(self._messages)
        for message in messages:
            self._messages.setdefault(message.message_id, message)
        return len(self._messages) - previous_count

    def get_message(self, message_id: str) -> RetrievedMessage | None:
        """Return the message with an id; None if it was not retrieved."""
        return self._messages.get(message_id)

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[RetrievedMessage]:
        return iter(self._messages.values())


@dataclass(frozen=True, slots=True)
class SearchFindings:
    """Results of the search phase of a recall.

    Attributes:
        evidence: retrieved messages in ranking order.
        relations: pairs of related messages, sorted by the time of the newer message.
        sufficiency: estimate of whether the message log contains the answer; None if no search made an estimate.
    """

    evidence: tuple[Evidence, ...]
    retrieval: RetrievedMessages
    relations: tuple[MessageRelation, ...] = ()
    sufficiency: Sufficiency | None = None
