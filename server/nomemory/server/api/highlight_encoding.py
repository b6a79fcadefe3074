"""Encode the highlights of a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nomemory.server.message import LoggedMessage
from nomemory.server.search.grammar.tree import Query
from nomemory.server.search.lexical.highlight import Extent, highlight
from nomemory.server.search.ranked import Ranked
from nomemory.server.search.reply_budget import Beside, nothing_beside
from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as pb

_HIGHLIGHT_MAX_CHARS: Final = 20_000
"""How far into a content highlights are searched for, in characters."""


_HIGHLIGHT_SPANS_MAX: Final = 200
"""Maximum spans in the highlight of a message."""


_FRAME_BYTES = 32
"""Most bytes of a highlight without its spans and its text."""


_SPAN_BYTES = 14
"""Most bytes of a span: two tags, two lengths, two numbers."""


_CHAR_BYTES = 4


def room(snippet_chars: int | None) -> Beside:
    """Return how many bytes the highlight of a message takes at most. None for `snippet_chars` means no highlights.

    The bound needs only the message's size. So a page is cut first, and only the messages in it are highlighted.
    """
    if snippet_chars is None:
        return nothing_beside
    spans_max, snippet_bytes = _HIGHLIGHT_SPANS_MAX, snippet_chars * _CHAR_BYTES

    def beside(message: LoggedMessage) -> int:
        size = len(message.wire)
        spans = min(spans_max, size // 2 + 1)  # no span touches another
        return _FRAME_BYTES + len(message.message_id) * _CHAR_BYTES + spans * _SPAN_BYTES + min(snippet_bytes, size)

    return beside


def highlights(items: Sequence[Ranked], query: Query, snippet_chars: int) -> bytes:
    """Return the bytes of a reply that has a highlight for each message. A long message takes up to 0.1 s."""
    extent = Extent(_HIGHLIGHT_MAX_CHARS, _HIGHLIGHT_SPANS_MAX)
    return b"".join(_highlight(item.message, query, snippet_chars, extent) for item in items)


def _highlight(message: LoggedMessage, query: Query, snippet_chars: int, extent: Extent) -> bytes:
    content = message_pb2.ChatMessage.FromString(message.wire).content
    found = highlight(content, query, snippet_chars, extent)
    start, end = found.snippet
    made = pb.Highlight(message_id=message.message_id, snippet_text=content[start:end], truncated=found.truncated)
    for span in found.spans:
        made.spans.add(start=span.start, end=span.end)
    made.snippet.start, made.snippet.end = start, end
    return pb.LexicalSearchResponse(highlights=[made]).SerializeToString()
