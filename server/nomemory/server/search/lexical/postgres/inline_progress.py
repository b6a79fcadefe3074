"""The progress of an index that is part of the log's own tables."""

from __future__ import annotations

from typing import Final

_EVERYTHING: Final = 2**63 - 1


class InlineLexicalProgress:
    """Implements LexicalProgress of an index that is part of the log."""

    @property
    def applied(self) -> int:
        """A sequence beyond all others: what the log has committed is searchable."""
        return _EVERYTHING

    async def erase_deleted(self) -> None:
        """Do nothing: what the log deletes from its tables is deleted from this index."""
