"""What a row of a message holds for search by words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from nomemory.server.message import Message


class Words(NamedTuple):
    """A number of 64 bits for each text that a look-up finds a message by, and its tokens, which decide."""

    keys: Sequence[int]
    tokens: bytes


ReadWords = Callable[[Message], Words]
"""Reads a message. It depends on nothing else."""


def no_words(_message: Message) -> Words:
    """Return what no search finds."""
    return Words((), b"\0")
