"""List conversations by their newest message, newest first."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nomemory.server.search.cursor import ConversationCursor, CursorCodec, Listing
from nomemory.server.store.protocol import LogReader
from nomemory.server.store.results import ConversationSummary

_DIGEST_BYTES = 8


@dataclass(frozen=True, slots=True)
class ConversationPage:
    """A page of conversations, newest first. `next_cursor` is empty on the last page."""

    conversations: Sequence[ConversationSummary]
    next_cursor: str


class ConversationListing:
    """Reads pages of conversations from the message log.

    A page summarizes the message versions that existed when the first page was read and that have not been deleted
    since. Writes after the first page therefore do not affect the listing. A deletion can move a conversation towards
    the end of the listing, where it would be returned a second time. The cursor therefore contains the digests of the
    returned conversations whose first message is older than the cursor position, because only these conversations could
    move past the cursor.
    """

    def __init__(self, log: LogReader, cursors: CursorCodec) -> None:
        self._log = log
        self._cursors = cursors

    async def read_page(self, listing: Listing, page_size: int, cursor: str) -> ConversationPage:
        """Return the page of conversations after a cursor.

        Raises:
            Fault: the cursor is invalid; the reason is one of CURSOR_….
        """
        state = await self._resume_listing(listing, cursor)
        conversations = await self._log.list_conversations(listing.user_id, pinned=state.pinned_sequence)
        remaining = [item for item in conversations if _is_remaining(item, state)]
        page = remaining[:page_size]
        if len(page) == len(remaining):
            return ConversationPage(page, "")
        return ConversationPage(page, self._cursors.issue(listing, _build_cursor(page[-1], state, conversations)))

    async def _resume_listing(self, listing: Listing, cursor: str) -> _ListingState:
        if not cursor:
            return _ListingState(await self._log.read_user_sequence(listing.user_id))
        resumed = self._cursors.resume(listing, cursor, ConversationCursor)
        return _ListingState(
            resumed.pinned_sequence,
            (resumed.last_us, resumed.conversation_id),
            _split_digests(resumed.delivered_digests),
        )


@dataclass(frozen=True, slots=True)
class _ListingState:
    """The state of a listing: pinned sequence number, last position (None on page 1), and digests of returned items."""

    pinned_sequence: int
    after: tuple[int, str] | None = None
    delivered_digests: frozenset[bytes] = frozenset()


def _is_remaining(conversation: ConversationSummary, state: _ListingState) -> bool:
    if state.after is None:
        return True
    is_after = (conversation.last_us, conversation.conversation_id) < state.after
    return is_after and _compute_conversation_digest(conversation) not in state.delivered_digests


def _build_cursor(
    last: ConversationSummary, state: _ListingState, conversations: Iterable[ConversationSummary]
) -> ConversationCursor:
    """Build the cursor that continues a listing after the last conversation of a page."""
    after = (last.last_us, last.conversation_id)
    overlapping = (item for item in conversations if (item.first_us, item.conversation_id) < after)
    digests = [
        _compute_conversation_digest(item)
        for item in overlapping
        # Conversations never move towards the start of the order, so those before this position were returned.
        if (item.last_us, item.conversation_id) >= after
        or _compute_conversation_digest(item) in state.delivered_digests
    ]
    return ConversationCursor(state.pinned_sequence, *after, base64.b64encode(b"".join(digests)).decode())


def _compute_conversation_digest(conversation: ConversationSummary) -> bytes:
    return hashlib.blake2b(conversation.conversation_id.encode(), digest_size=_DIGEST_BYTES).digest()


def _split_digests(encoded: str) -> frozenset[bytes]:
    digests = base64.b64decode(encoded)
    return frozenset(digests[start : start + _DIGEST_BYTES] for start in range(0, len(digests), _DIGEST_BYTES))
