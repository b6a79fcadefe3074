"""LangChain adapter: a retriever and tools for the memory of one user."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import Field

from nomemory.client import Client, tool_results
from nomemory.frameworks.tool_arguments import ToolCallError
from nomemory.frameworks.tools import MemoryTools
from nomemory.v1 import query_service_pb2


class MemoryRetriever(BaseRetriever):
    """LangChain retriever that searches a user's messages with hybrid search. Each document is a complete message.

    The field `options` has keyword arguments for `Client.hybrid_search`.
    """

    client: Client = Field(exclude=True, repr=False)
    user_id: str
    options: dict[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - the framework's signature
    ) -> list[Document]:
        response = self.client.hybrid_search(self.user_id, query, **self.options)
        return [_to_document(item) for item in response.items]


def _to_document(item: query_service_pb2.HybridItem) -> Document:
    fields = tool_results.message_to_json(item.message, item.score)
    metadata = {name: value for name, value in fields.items() if name not in {"content", "truncated"}}
    return Document(id=item.message.message_id, page_content=item.message.content, metadata=metadata)


def langchain_tools(tools: MemoryTools) -> list[BaseTool]:
    """Return LangChain tools for an agent. Errors are returned to the model as tool results."""
    return [_to_langchain_tool(tools, function["name"], function) for function in tools.functions]


def _to_langchain_tool(tools: MemoryTools, name: str, function: dict[str, object]) -> BaseTool:
    def run(**arguments: object) -> str:
        try:
            return tools.run(name, arguments)
        except ToolCallError as error:
            raise ToolException(str(error)) from error

    return StructuredTool(
        name=name,
        description=str(function["description"]),
        args_schema=function["parameters"],
        func=run,
        handle_tool_error=True,
    )
