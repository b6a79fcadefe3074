"""The result of building a context."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.recall.model.evidence import Retrieved


@dataclass(frozen=True, slots=True)
class ContextMessage:
    """A message of a context.

    Attributes:
        message: the message, with as much of its content as fits.
        truncated: whether the content ends early.
        score: that of the ranking; 0: the message was not ranked.
        superseded_by: the id of a later message of the context that restates this one; empty: none is known.
    """

    message: Retrieved
    truncated: bool = False
    score: float = 0.0
    superseded_by: str = ""


@dataclass(frozen=True, slots=True)
class BuiltContext:
    """The selected messages, oldest first, and the text that shows them.

    Attributes:
        recent: messages of the running conversation.
        related: messages of other conversations.
        text: the block for a prompt; empty: there is no message.
        token_count: the estimated size of the text.
        truncated: whether messages were cut or left out.
        semantic_unavailable: whether the ranking did without semantic search.
        index_lagging: whether stored messages of the user were not searchable yet.
    """

    recent: tuple[ContextMessage, ...] = ()
    related: tuple[ContextMessage, ...] = ()
    text: str = ""
    token_count: int = 0
    truncated: bool = False
    semantic_unavailable: bool = False
    index_lagging: bool = False
