"""Cursors: the sealed place of a listing, so that it can continue in any process and after any restart."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import TypeVar

import orjson

from nomemory.server.faults import Fault, Reason, Violation, field_fault
from nomemory.server.message_filter import Filter
from nomemory.server.runtime.token_cipher import ForgedTokenError, MalformedTokenError, TokenCipher

_PREFIX = "c_"
_SEQUENCE_DIGITS = 20


@dataclass(frozen=True, slots=True)
class Listing:
    """The listing that a cursor is bound to: everything that decides which messages are listed, and in what order."""

    method: str
    user_id: str
    query_text: str
    narrowed: Filter
    oldest_first: bool = False

    def user_digest(self) -> str:
        """Return the digest of the user in a cursor."""
        return _digest([self.user_id])

    def query_digest(self) -> str:
        """Return the digest of method, query, filter and order in a cursor."""
        n = self.narrowed
        # Entries of metadata are arrays, excluded conversations are strings: two filters never look alike.
        of_filter = [n.since_us, n.until_us, n.role, n.conversation_id, *n.metadata, *n.exclude_conversation_ids]
        return _digest([self.method, self.query_text, self.oldest_first, *of_filter])


@dataclass(frozen=True, slots=True)
class Place:
    """Where a listing by time stands.

    `pinned` is the log's sequence at the first page: it is kept, so that later writes do not enter the listing. `ts_us`
    and `message_id` are those of the last message that was delivered.
    """

    pinned: int
    ts_us: int
    message_id: str


@dataclass(frozen=True, slots=True)
class RankedPlace:
    """Where a ranked listing stands.

    Attributes:
        pinned: the index's sequence at the first page: later writes do not enter the listing.
        weights: the weights of the query's terms then: later writes do not move messages within the listing.
        window_terms: the number of terms of the window then, or None if all matches are ranked.
        window_since_us: the time of that window, or None.
        score: the score of the last message that was delivered.
        ts_us: its time.
        message_id: its id.
    """

    pinned: int
    weights: tuple[float, ...]
    window_terms: int | None
    window_since_us: int | None
    score: float
    ts_us: int
    message_id: str


@dataclass(frozen=True, slots=True)
class ConversationPlace:
    """Where a listing of conversations stands: after the last one that was delivered, as it was then.

    `pinned` is the user's sequence at the first page. `delivered` has the marks of those that were delivered and could
    still come up again: a conversation moves back in the order when its latest messages are deleted.
    """

    pinned: int
    last_us: int
    conversation_id: str
    delivered: str


@dataclass(frozen=True, slots=True)
class UserPlace:
    """Where a listing of users stands: after this one."""

    user_id: str


_Place = TypeVar("_Place")


class Cursors:
    """Issues and reads cursors.

    Args:
        seal: what authenticates them.
        lifetime_s: how long one can be used.
    """

    def __init__(self, seal: TokenCipher, lifetime_s: float) -> None:
        self._seal = seal
        self._lifetime_s = lifetime_s

    def issue(self, listing: Listing, place: Place | RankedPlace | ConversationPlace | UserPlace) -> str:
        """Make the cursor that continues a listing after a place."""
        payload = [listing.user_digest(), listing.query_digest(), int(time.time()), astuple(place)]
        # A cursor's length would tell how long the number is, and so how much others have written.
        padding = b" " * (_SEQUENCE_DIGITS - len(str(getattr(place, "pinned", ""))))
        return self._seal.encrypt(_PREFIX, orjson.dumps(payload) + padding)

    def resume(self, listing: Listing, cursor: str, place_type: Callable[..., _Place]) -> _Place:
        """Read a cursor of this very listing: where it goes on, which is of the type of its places.

        Raises:
            Fault: one of the CURSOR_… reasons.
        """
        try:
            user, query, issued, place = orjson.loads(self._seal.decrypt(_PREFIX, cursor))
        except MalformedTokenError:
            raise _refused(Reason.ERROR_REASON_CURSOR_MALFORMED, "is not a whole cursor") from None
        except ForgedTokenError:
            raise _refused(Reason.ERROR_REASON_CURSOR_FORGED, "was not issued by this service") from None
        if user != listing.user_digest():
            raise _refused(Reason.ERROR_REASON_CURSOR_OTHER_USER, "belongs to another user")
        if query != listing.query_digest():
            raise _refused(Reason.ERROR_REASON_CURSOR_OTHER_QUERY, "belongs to another query")
        if time.time() - issued > self._lifetime_s:
            raise _refused(Reason.ERROR_REASON_CURSOR_EXPIRED, "has expired")
        return place_type(*place)


def _refused(reason: Reason.ValueType, description: str) -> Fault:
    return field_fault(reason, Violation("cursor", description))


def _digest(parts: list[object]) -> str:
    return hashlib.blake2b(orjson.dumps(parts), digest_size=12).hexdigest()
