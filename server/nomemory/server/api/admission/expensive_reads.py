"""Classification of expensive reads. Only expensive reads pass admission control and need a slot."""

from __future__ import annotations

from typing import Final

from google.protobuf.message import Message as ProtoMessage

from nomemory.v1 import query_service_pb2 as pb

_EXPENSIVE: Final = frozenset(
    {
        "LexicalSearch",
        "SemanticSearch",
        "HybridSearch",
        "CountMessages",
        "ListConversations",
        "ListUsers",
        "ExportMessages",
        "Recall",
        "StreamRecall",
        "BuildContext",
    }
)


def is_expensive(method: str, request: ProtoMessage) -> bool:
    """Return whether a call is an expensive read.

    A ListMessages call is expensive if its filter has conditions that no index covers. The function also accepts a
    request that has not been validated.
    """
    if isinstance(request, pb.ListMessagesRequest):
        unindexed = request.filter.role or request.filter.metadata or request.filter.exclude_conversation_ids
        return bool(unindexed)
    return method in _EXPENSIVE
