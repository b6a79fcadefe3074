"""LlamaIndex adapter: a retriever for the memory of one user."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from nomemory.client import Client, tool_results
from nomemory.v1 import query_service_pb2


class MemoryRetriever(BaseRetriever):
    """LlamaIndex retriever that searches a user's messages with hybrid search. Each node is a complete message.

    Args:
        client: the client for all calls, which the caller must close.
        user_id: the user whose messages are searched.
        options: keyword arguments for `Client.hybrid_search`.
    """

    def __init__(self, client: Client, user_id: str, **options: Any) -> None:  # noqa: ANN401 - options of different types
        super().__init__()
        self._client = client
        self._user_id = user_id
        self._options = options

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        response = self._client.hybrid_search(self._user_id, query_bundle.query_str, **self._options)
        return [NodeWithScore(node=_to_node(item), score=item.score) for item in response.items]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _to_node(item: query_service_pb2.HybridItem) -> TextNode:
    fields = tool_results.message_to_json(item.message)
    metadata = {name: value for name, value in fields.items() if name not in {"content", "truncated"}}
    return TextNode(id_=item.message.message_id, text=item.message.content, metadata=metadata)
