"""What a row of a message holds for search by words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from nomemory.server.message import Message


class Words(NamedTuple):
    """A number for each term of a message, and its text as it is searched for phrases; None: it was not read."""

    keys: Sequence[int] | None = None
    tokens: bytes | None = None


ReadWords = Callable[[Message], Words]
"""Reads a message. It depends on nothing else."""


def no_words(_message: Message) -> Words:
    """Return nothing: an index beside the database finds words."""
    return Words()
