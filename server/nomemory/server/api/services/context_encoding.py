"""Encoding of the results of BuildContext as protobuf messages."""

from __future__ import annotations

from nomemory.recall.context.result import BuiltContext, ContextMessage
from nomemory.server.api.services.recall_encoding import encode_message
from nomemory.v1 import recall_service_pb2 as pb


def encode_context_reply(built: BuiltContext) -> pb.BuildContextResponse:
    """Encode the result of BuildContext as its response."""
    return pb.BuildContextResponse(
        recent=map(_encode_message, built.recent),
        related=map(_encode_message, built.related),
        text=built.text,
        token_count=built.token_count,
        truncated=built.truncated,
        semantic_unavailable=built.semantic_unavailable,
        index_lagging=built.index_lagging,
    )


def _encode_message(item: ContextMessage) -> pb.ContextMessage:
    return pb.ContextMessage(
        message=encode_message(item.message, item.message.content),
        truncated=item.truncated,
        score=item.score,
        superseded_by=item.superseded_by,
    )
