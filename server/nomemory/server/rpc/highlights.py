"""Highlights in a reply: how much room they may take, and how they are made."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from nomemory.server.lexical.highlight import Extent, highlight
from nomemory.server.lexical.query import Query
from nomemory.server.message import LoggedMessage
from nomemory.server.reads.ranked import Ranked
from nomemory.server.reads.reply_budget import Beside, nothing_beside
from nomemory.server.settings import Settings
from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as pb

_FRAME_BYTES = 32
"""What a highlight takes at most without its spans and its text."""

_SPAN_BYTES = 14
"""What a span takes at most: two tags, two lengths, two numbers."""

_CHAR_BYTES = 4

_SHORT_CHARS = 1000
"""What is highlighted within a few milliseconds. Longer contents take up to a tenth of a second, and a thread."""


def room(settings: Settings, snippet_chars: int | None) -> Beside:
    """Say what the highlight of a message may take in a reply; None if none is asked for.

    It is known before the message is looked at, so that a page is cut first and only what is in it is highlighted.
    """
    if snippet_chars is None:
        return nothing_beside
    spans_max, snippet_bytes = settings.highlight_spans_max, snippet_chars * _CHAR_BYTES

    def beside(message: LoggedMessage) -> int:
        size = len(message.wire)
        spans = min(spans_max, size // 2 + 1)  # no span touches another
        return _FRAME_BYTES + spans * _SPAN_BYTES + min(snippet_bytes, size)

    return beside


async def highlights(
    items: Sequence[Ranked], query: Query, settings: Settings, snippet_chars: int | None
) -> list[pb.Highlight]:
    """Highlight each message, or none where it is not asked for; others have their turn in between."""
    if snippet_chars is None:
        return []
    extent = Extent(settings.highlight_max_chars, settings.highlight_spans_max)
    made, looked_at = [], 0
    for item in items:
        content = message_pb2.ChatMessage.FromString(item.message.wire).content
        if len(content) > _SHORT_CHARS:
            made.append(await asyncio.to_thread(_highlight, content, query, snippet_chars, extent))
            continue
        made.append(_highlight(content, query, snippet_chars, extent))
        looked_at += len(content)
        if looked_at > _SHORT_CHARS:
            await asyncio.sleep(0)
            looked_at = 0
    return made


def _highlight(content: str, query: Query, snippet_chars: int, extent: Extent) -> pb.Highlight:
    found = highlight(content, query, snippet_chars, extent)
    start, end = found.snippet
    made = pb.Highlight(snippet_text=content[start:end], truncated=found.truncated)
    for span in found.spans:
        made.spans.add(start=span.start, end=span.end)
    made.snippet.start, made.snippet.end = start, end
    return made
