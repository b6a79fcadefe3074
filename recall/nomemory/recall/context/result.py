"""The result of building a context."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.recall.model.evidence import RetrievedMessage


@dataclass(frozen=True, slots=True)
class ContextMessage:
    """A message of a context.

    Attributes:
        message: the message, truncated if necessary.
        truncated: whether the content is truncated.
        score: the score in the ranking; 0 for unranked messages.
        superseded_by: id of a later message of the context that supersedes this one; empty if none is known.
    """

    message: RetrievedMessage
    truncated: bool = False
    score: float = 0.0
    superseded_by: str = ""


@dataclass(frozen=True, slots=True)
class BuiltContext:
    """The selected messages, oldest first, and the text for the prompt.

    Attributes:
        recent: messages of the current conversation.
        related: messages of other conversations.
        text: the prompt block; empty without messages.
        token_count: estimated tokens of the text.
        truncated: whether messages were truncated or dropped.
        semantic_unavailable: whether the ranking ran without semantic search.
        index_lagging: whether some of the user's stored messages were not searchable yet.
    """

    recent: tuple[ContextMessage, ...] = ()
    related: tuple[ContextMessage, ...] = ()
    text: str = ""
    token_count: int = 0
    truncated: bool = False
    semantic_unavailable: bool = False
    index_lagging: bool = False
