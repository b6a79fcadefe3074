"""An item of a ranked listing."""

from __future__ import annotations

from typing import NamedTuple

from nomemory.server.message import LoggedMessage


class Ranked(NamedTuple):
    """A message and its score."""

    message: LoggedMessage
    score: float

    def order(self) -> tuple[float, int, str]:
        """Return the sort key of the listing, for descending order."""
        return (self.score, self.message.ts_us, self.message.message_id)
