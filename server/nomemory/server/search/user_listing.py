"""List the users who have messages, ordered by id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nomemory.server.search.cursor import CursorCodec, Listing, UserCursor
from nomemory.server.store.protocol import LogReader
from nomemory.server.store.results import UserCount


@dataclass(frozen=True, slots=True)
class UserPage:
    """A page of users, ordered by id. `next_cursor` is empty on the last page."""

    users: Sequence[UserCount]
    next_cursor: str


class UserListing:
    """Reads pages of users from the message log. Each page shows the current state of the message log."""

    def __init__(self, log: LogReader, cursors: CursorCodec) -> None:
        self._log = log
        self._cursors = cursors

    async def read_page(self, listing: Listing, page_size: int, cursor: str) -> UserPage:
        """Return the page of users after a cursor. `listing.user_id` is the prefix of the user ids to list.

        Raises:
            Fault: the cursor is invalid; the reason is one of CURSOR_….
        """
        after = self._cursors.resume(listing, cursor, UserCursor).user_id if cursor else ""
        users = await self._log.list_users(after=after, limit=page_size + 1, prefix=listing.user_id)
        page = users[:page_size]
        if len(page) == len(users):
            return UserPage(page, "")
        return UserPage(page, self._cursors.issue(listing, UserCursor(page[-1].user_id)))
