"""What a page has to look for that goes on from a position."""

from __future__ import annotations

from dataclasses import replace

from nomemory.server.log.protocol import Position
from nomemory.server.message import Filter


def beyond(narrowed: Filter, after: Position | None, *, oldest_first: bool) -> Filter:
    """Drop the bound that a position makes needless: given both, SQLite starts at the wrong one."""
    if after is None:
        return narrowed
    since_us, until_us = narrowed.since_us, narrowed.until_us
    if oldest_first and since_us is not None and after.ts_us >= since_us:
        return replace(narrowed, since_us=None)
    if not oldest_first and until_us is not None and after.ts_us < until_us:
        return replace(narrowed, until_us=None)
    return narrowed
