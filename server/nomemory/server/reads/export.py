"""All messages of a user in the order of the log, in batches that an import takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from nomemory.server.cursor import Listing
from nomemory.server.reads.time_listing import TimeListing, WirePage


class Export:
    """Reads a listing by time from a cursor to its end.

    Each batch is a page of its own: one short read, with a cursor that resumes after it. All of them are pinned at the
    sequence of the first.

    Args:
        by_time: reads the pages.
        batch_max: most messages in a batch.
    """

    def __init__(self, by_time: TimeListing, batch_max: int) -> None:
        self._by_time = by_time
        self._batch_max = batch_max

    async def batches(self, listing: Listing, cursor: str) -> AsyncIterator[WirePage]:
        """Read batch after batch. The last one has no cursor; it is empty if nothing is left to export.

        Raises:
            Fault: one of the CURSOR_… reasons.
        """
        while True:
            page = await self._by_time.wire_page(listing, self._batch_max, cursor)
            yield page
            cursor = page.next_cursor
            if not cursor:
                return
            await asyncio.sleep(0)  # a client that is quick to read must not keep the event loop to itself
