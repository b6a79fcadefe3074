"""What reads cost the event loop, in milliseconds on a machine of today: declared, by method and by what is asked for.

The figures are those of a user with thousands of messages, rounded (docs/performance.md). They decide who goes first
and how large each one's share is, so only their proportions matter.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.message import Message as ProtoMessage

from nomemory.server.settings import Settings
from nomemory.v1 import query_service_pb2 as pb

_SHORT: Final = frozenset({"ListMessages", "GetNeighbors", "BatchGetMessages"})
_FIXED: Final = {
    "SemanticSearch": 2.0,
    "HybridSearch": 15.0,
    "Recall": 25.0,
    "StreamRecall": 25.0,
    "CountMessages": 2.0,
    "ListConversations": 2.0,
    "ListUsers": 5.0,
    "ExportMessages": 5.0,
}
_LEAST: Final = 1.0
_CHARS_PER_MS: Final = 60
_HIGHLIGHT_CHARS_PER_MS: Final = 2000
"""A highlight costs as many milliseconds as the query has characters, by this."""
_HIGHLIGHT_LEAST: Final = 0.02


def cost_of(method: str, request: ProtoMessage, settings: Settings) -> float:
    """Return what a read costs; 0 for a short one. The request has not been checked: it may ask for too much."""
    if method in _SHORT:
        return 0.0
    if isinstance(request, pb.LexicalSearchRequest):
        return _of_words(request, settings)
    return _FIXED[method]


def _of_words(request: pb.LexicalSearchRequest, settings: Settings) -> float:
    limits = settings.limits
    chars = min(len(request.query_text), limits.query_max_chars)
    cost = _LEAST + chars / _CHARS_PER_MS
    if request.HasField("highlight"):
        page = min(max(request.page_size, 0) or limits.page_size_default, limits.page_size_max)
        cost += page * (_HIGHLIGHT_LEAST + chars / _HIGHLIGHT_CHARS_PER_MS)
    return cost
