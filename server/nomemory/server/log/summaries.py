"""What messages add up to: of a conversation, and of a user."""

from __future__ import annotations

from typing import NamedTuple


class ConversationSummary(NamedTuple):
    """What the messages of a conversation add up to. Times are microseconds since the epoch."""

    conversation_id: str
    first_us: int
    last_us: int
    messages: int


class UserCount(NamedTuple):
    """A user, and how many messages they have."""

    user_id: str
    messages: int
