"""An index of words that is part of the log: it follows nothing, and has no files of its own."""

from __future__ import annotations

from typing import Final

_EVERYTHING: Final = 2**63 - 1


class WordsInLog:
    """Implements LexicalProgress, and what an erasure needs of an index."""

    @property
    def applied(self) -> int:
        """Beyond every sequence: what the log has committed is searchable."""
        return _EVERYTHING

    async def wipe_removed(self) -> None:
        """Do nothing: what the log takes out of its tables is out of this index."""
