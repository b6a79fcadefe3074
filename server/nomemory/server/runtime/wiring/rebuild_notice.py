"""The notice of an index that did not belong to the message log and is being rebuilt."""

from __future__ import annotations

from typing import Final

from nomemory.server.runtime.structured_logs import get_logger

_NOTICE: Final = "it did not belong to this log, or was ahead of it, and is built anew since the server started"

_log = get_logger("server")


def rebuild_notice(index: str, *, was_discarded: bool) -> str:
    """Return the notice for the index's status, and log it; an empty string if the index was not discarded."""
    if not was_discarded:
        return ""
    _log.warning("an index does not belong to this log, or is ahead of it, and is built anew", index=index)
    return _NOTICE
