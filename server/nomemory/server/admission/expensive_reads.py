"""Which reads are expensive: they are admitted, and take turns. All other reads are answered at once."""

from __future__ import annotations

from typing import Final

from google.protobuf.message import Message as ProtoMessage

from nomemory.v1 import query_service_pb2 as pb

_EXPENSIVE: Final = {
    "ListMessages": False,  # unless no index serves its filter
    "GetNeighbors": False,
    "BatchGetMessages": False,
    "LexicalSearch": True,
    "SemanticSearch": True,
    "HybridSearch": True,
    "CountMessages": True,
    "ListConversations": True,
    "ListUsers": True,
    "ExportMessages": True,
    "Recall": True,
    "StreamRecall": True,
}


def is_expensive(method: str, request: ProtoMessage) -> bool:
    """Return whether a read is expensive, by its method's short name. The request need not be valid."""
    if isinstance(request, pb.ListMessagesRequest):
        return bool(request.filter.role or request.filter.metadata)
    return _EXPENSIVE[method]
