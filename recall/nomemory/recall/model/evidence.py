"""Messages that a recall has retrieved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from nomemory.recall.model.question import Role
from nomemory.recall.model.sufficiency import Sufficiency


@dataclass(frozen=True, slots=True)
class Retrieved:
    """One message, verbatim; the ids of what it takes back, and of what took it back."""

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
        """Who spoke: the name if there is one, else the role."""
        return self.name or self.role.value


@dataclass(frozen=True, slots=True)
class Evidence:
    """A retrieved message and how well it answers the question.

    Attributes:
        message: what was said.
        score: compares within one recall only; 3 is about the best.
        deviations: how much nearer in meaning it is to the question than the user's messages usually are, in standard
            deviations; 0 where that is not known.
    """

    message: Retrieved
    score: float
    deviations: float = 0.0


@dataclass(frozen=True, slots=True)
class Relation:
    """Two messages of one speaker that speak of the same thing, named by their ids.

    Attributes:
        earlier: what was said first.
        later: what was said last.
        nearness: how much nearer they are than what was found usually is, in standard deviations.
        shared: the share of words in common, 0 to 1, a rare word counting more.
    """

    earlier: str
    later: str
    nearness: float
    shared: float


@dataclass(slots=True)
class Retrieval:
    """All messages that one recall has retrieved so far, by id. No other message can be cited."""

    _messages: dict[str, Retrieved] = field(default_factory=dict)

    def add(self, messages: Iterable[Retrieved]) -> int:
        """Add messages; return how many were new."""
        before = len(self._messages)
        for message in messages:
            self._messages.setdefault(message.message_id, message)
        return len(self._messages) - before

    def get(self, message_id: str) -> Retrieved | None:
        """Return a retrieved message."""
        return self._messages.get(message_id)

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Retrieved]:
        return iter(self._messages.values())


@dataclass(frozen=True, slots=True)
class Findings:
    """What a search has come to.

    Attributes:
        evidence: best first; what asserts something stands before what does not.
        retrieval: everything that was retrieved.
        relations: which messages speak of the same thing, in the order of the later one.
        sufficiency: how likely the log is to answer; None where no search says.
    """

    evidence: tuple[Evidence, ...]
    retrieval: Retrieval
    relations: tuple[Relation, ...] = ()
    sufficiency: Sufficiency | None = None
