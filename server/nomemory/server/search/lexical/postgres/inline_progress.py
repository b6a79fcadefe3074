"""The progress of a lexical index in the tables of the message log."""

from __future__ import annotations

from typing import Final

_MAX_SEQUENCE: Final = 2**63 - 1


class InlineLexicalProgress:
    """Implements LexicalProgress for an index that never lags behind the message log."""

    @property
    def applied_sequence(self) -> int:
        """The maximum sequence number, because every commit of the message log is searchable at once."""
        return _MAX_SEQUENCE

    async def erase_deleted(self) -> None:
        """Do nothing: the index is stored in the columns of the message, and is deleted with it."""
