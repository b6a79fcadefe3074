"""The items of ranked listings."""

from __future__ import annotations

from typing import NamedTuple

from nomemory.server.message import LoggedMessage


class RankedMessage(NamedTuple):
    """A message of a ranked listing, with its score."""

    message: LoggedMessage
    score: float

    def build_sort_key(self) -> tuple[float, int, str]:
        """Return the key by which ranked messages are sorted in descending order."""
        return (self.score, self.message.ts_us, self.message.message_id)
