"""List the users who have messages, by their ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nomemory.server.search.cursor import Cursors, Listing, UserPlace
from nomemory.server.store.protocol import LogReader
from nomemory.server.store.results import UserCount


@dataclass(frozen=True, slots=True)
class UserPage:
    """A page, by id. `next_cursor` is empty on the last one."""

    users: Sequence[UserCount]
    next_cursor: str


class UserListing:
    """Reads pages of users off the log, as it is at each page."""

    def __init__(self, log: LogReader, cursors: Cursors) -> None:
        self._log = log
        self._cursors = cursors

    async def page(self, listing: Listing, page_size: int, cursor: str) -> UserPage:
        """Read one page. In place of a user the listing names what the users' ids begin with.

        Raises:
            Fault: one of the CURSOR_… reasons.
        """
        after = self._cursors.resume(listing, cursor, UserPlace).user_id if cursor else ""
        found = await self._log.users(after=after, limit=page_size + 1, prefix=listing.user_id)
        users = found[:page_size]
        if len(users) == len(found):
            return UserPage(users, "")
        return UserPage(users, self._cursors.issue(listing, UserPlace(users[-1].user_id)))
