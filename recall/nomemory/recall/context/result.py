"""Messages and prompt text of a context."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.recall.model.evidence import RetrievedMessage


@dataclass(frozen=True, slots=True)
class ContextMessage:
    """A message that was selected for a context.

    Attributes:
        message: the message, whose content may be truncated.
        score: the score in the search; 0 if the search did not find the message.
        superseded_by: id of a later message in the same context that supersedes this one, or empty.
    """

    message: RetrievedMessage
    truncated: bool = False
    score: float = 0.0
    superseded_by: str = ""


@dataclass(frozen=True, slots=True)
class BuiltContext:
    """The messages selected for a prompt, oldest first, and the prompt text.

    Attributes:
        recent: messages of the current conversation.
        related: messages of other conversations.
        text: the prompt text; empty if there are no messages.
        token_count: estimated number of tokens in `text`.
        truncated: whether messages were truncated or dropped.
        semantic_unavailable: whether the search was lexical only.
        index_lagging: whether some of the user's stored messages were not searchable yet.
    """

    recent: tuple[ContextMessage, ...] = ()
    related: tuple[ContextMessage, ...] = ()
    text: str = ""
    token_count: int = 0
    truncated: bool = False
    semantic_unavailable: bool = False
    index_lagging: bool = False
