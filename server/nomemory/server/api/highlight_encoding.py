"""Encoding of highlights, and an upper bound of their encoded size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nomemory.server.message import LoggedMessage
from nomemory.server.search.grammar.tree import Query
from nomemory.server.search.lexical.highlight import HighlightLimits, highlight
from nomemory.server.search.ranked import RankedMessage
from nomemory.server.search.reply_budget import ExtraBytes, count_no_extra_bytes
from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as pb

_HIGHLIGHT_MAX_CHARS: Final = 20_000
"""Number of characters at the start of a message that are searched for highlights."""
_HIGHLIGHT_SPANS_MAX: Final = 200
"""Maximum number of spans in a highlight."""
_FRAME_BYTES: Final = 32
"""Maximum encoded size of a highlight without its spans and its text."""
_SPAN_BYTES: Final = 14
"""Maximum encoded size of a span: two tags, two lengths, two numbers."""
_CHAR_BYTES: Final = 4
"""Maximum size of a character in UTF-8."""


def make_max_highlight_size(snippet_chars: int | None) -> ExtraBytes:
    """Return a function that computes the maximum encoded size of a message's highlight, in bytes.

    The maximum depends only on the size of the message, so the size of a page can be limited before its messages are
    highlighted. The maximum is 0 if `snippet_chars` is None.
    """
    if snippet_chars is None:
        return count_no_extra_bytes
    snippet_bytes = snippet_chars * _CHAR_BYTES

    def compute_max_size(message: LoggedMessage) -> int:
        size = len(message.wire)
        spans = min(_HIGHLIGHT_SPANS_MAX, size // 2 + 1)  # at least one character between two spans
        return _FRAME_BYTES + len(message.message_id) * _CHAR_BYTES + spans * _SPAN_BYTES + min(snippet_bytes, size)

    return compute_max_size


def encode_highlights(items: Sequence[RankedMessage], query: Query, snippet_chars: int) -> bytes:
    """Return the highlights of messages as an encoded part of LexicalSearchResponse.

    Encoding takes up to 0.1 s per message.
    """
    limits = HighlightLimits(_HIGHLIGHT_MAX_CHARS, _HIGHLIGHT_SPANS_MAX)
    return b"".join(_encode_highlight(item.message, query, snippet_chars, limits) for item in items)


def _encode_highlight(message: LoggedMessage, query: Query, snippet_chars: int, limits: HighlightLimits) -> bytes:
    content = message_pb2.ChatMessage.FromString(message.wire).content
    result = highlight(content, query, snippet_chars, limits)
    start, end = result.snippet
    encoded = pb.Highlight(message_id=message.message_id, snippet_text=content[start:end], truncated=result.truncated)
    for span in result.spans:
        encoded.spans.add(start=span.start, end=span.end)
    encoded.snippet.start, encoded.snippet.end = start, end
    return pb.LexicalSearchResponse(highlights=[encoded]).SerializeToString()
