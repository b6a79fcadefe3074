"""Highlights in a reply: their size, and their making."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from nomemory.server.lexical.highlight import Extent, highlight
from nomemory.server.lexical.query.tree import Query
from nomemory.server.message import LoggedMessage
from nomemory.server.reads.ranked import Ranked
from nomemory.server.reads.reply_budget import Beside, nothing_beside
from nomemory.server.settings import Settings
from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as pb

_FRAME_BYTES = 32
"""Most bytes of a highlight without its spans and its text."""

_SPAN_BYTES = 14
"""Most bytes of a span: two tags, two lengths, two numbers."""

_CHAR_BYTES = 4

_SHORT_CHARS = 1000
"""Contents up to this length are highlighted within a few milliseconds. Longer ones take up to 0.1 s, in a thread."""


def room(settings: Settings, snippet_chars: int | None) -> Beside:
    """Return how many bytes the highlight of a message takes at most. None for `snippet_chars` means no highlights.

    The bound needs only the message's size. So a page is cut first, and only the messages in it are highlighted.
    """
    if snippet_chars is None:
        return nothing_beside
    spans_max, snippet_bytes = settings.limits.highlight_spans_max, snippet_chars * _CHAR_BYTES

    def beside(message: LoggedMessage) -> int:
        size = len(message.wire)
        spans = min(spans_max, size // 2 + 1)  # no span touches another
        return _FRAME_BYTES + len(message.message_id) * _CHAR_BYTES + spans * _SPAN_BYTES + min(snippet_bytes, size)

    return beside


async def highlights(items: Sequence[Ranked], query: Query, settings: Settings, snippet_chars: int | None) -> bytes:
    """Return the bytes of a reply that has a highlight for each message; none if `snippet_chars` is None.

    Other calls run in between. To encode the highlights of a large page all at once would hold them up.
    """
    if snippet_chars is None:
        return b""
    extent = Extent(settings.limits.highlight_max_chars, settings.limits.highlight_spans_max)
    made, since_pause = list[bytes](), 0
    for item in items:
        content = message_pb2.ChatMessage.FromString(item.message.wire).content
        if len(content) > _SHORT_CHARS:
            made.append(await asyncio.to_thread(_highlight, item.message, content, query, snippet_chars, extent))
            continue
        made.append(_highlight(item.message, content, query, snippet_chars, extent))
        since_pause += len(content)
        if since_pause > _SHORT_CHARS:
            await asyncio.sleep(0)
            since_pause = 0
    return b"".join(made)


def _highlight(message: LoggedMessage, content: str, query: Query, snippet_chars: int, extent: Extent) -> bytes:
    found = highlight(content, query, snippet_chars, extent)
    start, end = found.snippet
    made = pb.Highlight(message_id=message.message_id, snippet_text=content[start:end], truncated=found.truncated)
    for span in found.spans:
        made.spans.add(start=span.start, end=span.end)
    made.snippet.start, made.snippet.end = start, end
    return pb.LexicalSearchResponse(highlights=[made]).SerializeToString()
