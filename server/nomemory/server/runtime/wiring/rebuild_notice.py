"""The status notice for an index that was discarded and is being rebuilt."""

from __future__ import annotations

from typing import Final

from nomemory.server.runtime.structured_logs import get_logger

_NOTICE: Final = "rebuilding since startup: the index belonged to another message log or was ahead of this one"

_log = get_logger("server")


def log_rebuild_notice(index: str, *, was_discarded: bool) -> str:
    """Log a warning if an index was discarded, and return a notice for the index status, otherwise an empty string."""
    if not was_discarded:
        return ""
    _log.warning("rebuilding an index that belongs to another message log or is ahead of this one", index=index)
    return _NOTICE
