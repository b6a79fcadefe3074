"""Messages that a recall has retrieved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from nomemory.recall.model.question import Role


@dataclass(frozen=True, slots=True)
class Retrieved:
    """One message, verbatim."""

    message_id: str
    ts: datetime
    role: Role
    content: str
    name: str = ""
    conversation_id: str = ""

    @property
    def speaker(self) -> str:
        """Who spoke: the name if there is one, else the role."""
        return self.name or self.role.value

    @property
    def person(self) -> str:
        """Name who spoke, if that is known; a tool is nobody, even if it has a name."""
        return "" if self.role is Role.TOOL else self.name


@dataclass(frozen=True, slots=True)
class Evidence:
    """A retrieved message and how well it answers the question; scores compare within one recall only."""

    message: Retrieved
    score: float


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
