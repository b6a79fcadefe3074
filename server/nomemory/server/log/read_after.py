"""What a read has to know: a write whose token its caller gave. Then a copy of the log may answer that has it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, NamedTuple


class ReadAfter(NamedTuple):
    """A user whose messages are read, and the sequence that the answer has to have."""

    user_id: str
    sequence: int


READ_AFTER: Final[ContextVar[ReadAfter | None]] = ContextVar("READ_AFTER", default=None)
"""Set for the reads of a call. None: they have to have everything that was acknowledged before they began."""
