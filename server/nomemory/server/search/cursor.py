"""Issue and validate cursors: encrypted listing positions that are valid in any process and after a restart."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import TypeVar

import orjson

from nomemory.server.faults import Fault, Reason, Violation, build_field_fault
from nomemory.server.message_filter import Filter
from nomemory.server.runtime.token_cipher import ForgedTokenError, MalformedTokenError, TokenCipher

_PREFIX = "c_"
_SEQUENCE_DIGITS = 20


@dataclass(frozen=True, slots=True)
class Listing:
    """The parameters that determine the items of a listing and their order. A cursor is valid for one listing only."""

    method: str
    user_id: str
    query_text: str
    filter: Filter
    oldest_first: bool = False

    def compute_user_digest(self) -> str:
        """Return the digest of the user id."""
        return _compute_digest([self.user_id])

    def compute_query_digest(self) -> str:
        """Return the digest of the method, query, filter and order."""
        n = self.filter
        # Metadata entries are arrays and conversation ids are strings, so that different filters have different
        # digests.
        filter_parts = [n.since_us, n.until_us, n.role, n.conversation_id, *n.metadata, *n.exclude_conversation_ids]
        return _compute_digest([self.method, self.query_text, self.oldest_first, *filter_parts])


@dataclass(frozen=True, slots=True)
class TimeCursor:
    """The position in a listing by time.

    Attributes:
        pinned_sequence: the sequence number of the message log when the first page was read; later writes are not
            listed.
        ts_us: the timestamp of the last returned message.
    """

    pinned_sequence: int
    ts_us: int
    message_id: str


@dataclass(frozen=True, slots=True)
class RankedCursor:
    """The position in a ranked listing.

    Attributes:
        pinned_sequence: the sequence number of the index when the first page was read; later writes are not listed.
        weights: the term weights when the first page was read, so that later writes do not change scores.
        window_term_count: the number of terms that select messages for the ranking window; None if all matches are
            ranked.
        window_since_us: the start of the ranking window, in microseconds since the epoch; None if all matches are
            ranked.
        score: the score of the last returned message.
    """

    pinned_sequence: int
    weights: tuple[float, ...]
    window_term_count: int | None
    window_since_us: int | None
    score: float
    ts_us: int
    message_id: str


@dataclass(frozen=True, slots=True)
class ConversationCursor:
    """The position in a listing of conversations.

    Attributes:
        pinned_sequence: the latest sequence number of the user when the first page was read; later writes are not
            listed.
        last_us: the newest timestamp of the last returned conversation.
        delivered_digests: Base64 digests of the returned conversations that a deletion could move past the cursor.
    """

    pinned_sequence: int
    last_us: int
    conversation_id: str
    delivered_digests: str


@dataclass(frozen=True, slots=True)
class UserCursor:
    """The position in a listing of users: the last returned user id."""

    user_id: str


_Position = TypeVar("_Position")


class CursorCodec:
    """Issues and validates cursors.

    Args:
        cipher: encrypts and authenticates cursors.
        lifetime_s: the validity period of a cursor, in seconds.
    """

    def __init__(self, cipher: TokenCipher, lifetime_s: float) -> None:
        self._cipher = cipher
        self._lifetime_s = lifetime_s

    def issue(self, listing: Listing, position: TimeCursor | RankedCursor | ConversationCursor | UserCursor) -> str:
        """Return the cursor that continues a listing after a position."""
        payload = [listing.compute_user_digest(), listing.compute_query_digest(), int(time.time()), astuple(position)]
        # Without padding, the length of a cursor would reveal the magnitude of the sequence number, and thus the writes
        # of others.
        padding = b" " * (_SEQUENCE_DIGITS - len(str(getattr(position, "pinned_sequence", ""))))
        return self._cipher.encrypt(_PREFIX, orjson.dumps(payload) + padding)

    def resume(self, listing: Listing, cursor: str, position_type: Callable[..., _Position]) -> _Position:
        """Validate a cursor and return its position.

        Raises:
            Fault: the cursor is invalid; the reason is one of CURSOR_….
        """
        try:
            user, query, issued, position = orjson.loads(self._cipher.decrypt(_PREFIX, cursor))
        except MalformedTokenError:
            raise _build_cursor_fault(Reason.ERROR_REASON_CURSOR_MALFORMED, "is truncated or is not a cursor") from None
        except ForgedTokenError:
            raise _build_cursor_fault(Reason.ERROR_REASON_CURSOR_FORGED, "was not issued by this service") from None
        if user != listing.compute_user_digest():
            raise _build_cursor_fault(Reason.ERROR_REASON_CURSOR_OTHER_USER, "belongs to another user")
        if query != listing.compute_query_digest():
            raise _build_cursor_fault(Reason.ERROR_REASON_CURSOR_OTHER_QUERY, "belongs to another query")
        if time.time() - issued > self._lifetime_s:
            raise _build_cursor_fault(Reason.ERROR_REASON_CURSOR_EXPIRED, "has expired")
        return position_type(*position)


def _build_cursor_fault(reason: Reason.ValueType, description: str) -> Fault:
    return build_field_fault(reason, Violation("cursor", description))


def _compute_digest(parts: list[object]) -> str:
    return hashlib.blake2b(orjson.dumps(parts), digest_size=12).hexdigest()
