"""Definitions and implementations of the MCP tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import mcp_types as types

from nomemory.client import PROMPT_MESSAGES, chat_message, requests, tool_results
from nomemory.client.prompt_block import build_prompt_block
from nomemory.client.tool_results import Json
from nomemory.mcp import results
from nomemory.mcp.arguments import (
    ContextArguments,
    ForgetArguments,
    LexicalArguments,
    ListArguments,
    NeighborArguments,
    RecallArguments,
    RememberArguments,
    SearchArguments,
    SemanticArguments,
)
from nomemory.mcp.backend import Backend
from nomemory.mcp.credentials import BoundCaller, ToolScope
from nomemory.recall.tools.argument_schema import build_object_schema
from nomemory.recall.tools.arguments import ArgumentObject

Options = dict[str, Any]
"""Client options of a request."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A tool result: JSON, optional text for the model, and the write token of a write."""

    result: Json
    text: str = ""
    write_token: str = ""


@dataclass(frozen=True, slots=True)
class Tool:
    """An MCP tool.

    Attributes:
        waits: whether the tool accepts a write token to wait for.
    """

    name: str
    title: str
    description: str
    arguments: type[ArgumentObject]
    result: type[results.Result]
    run: Callable[[Backend, BoundCaller, Options], Awaitable[ToolOutput]]
    scope: ToolScope = ToolScope.QUERY
    waits: bool = True
    deletes: bool = False

    @property
    def is_write(self) -> bool:
        """Whether the tool changes the memory."""
        return self.scope is ToolScope.INGEST

    def build_definition(self) -> types.Tool:
        """Return the definition of the tool for MCP clients."""
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=build_object_schema(self.arguments),
            output_schema=self.result.model_json_schema(),
            annotations=types.ToolAnnotations(
                read_only_hint=not self.is_write,
                destructive_hint=self.deletes,
                idempotent_hint=self.deletes or not self.is_write,
                open_world_hint=False,
            ),
        )


async def _call_recall(backend: Backend, caller: BoundCaller, options: Options) -> ToolOutput:
    question = options.pop("query")
    request = requests.recall(question, **options, evidence_messages=PROMPT_MESSAGES)
    reply = await backend.call(backend.recall.Recall, request, caller.recall_metadata)
    block = build_prompt_block(reply, question, options["time_zone"])
    return ToolOutput(
        tool_results.recall_to_json(reply, block.select_messages()), tool_results.format_recall(reply, block.render())
    )


async def _call_build_context(backend: Backend, caller: BoundCaller, options: Options) -> ToolOutput:
    request = requests.build_context(options.pop("turns"), **options)
    reply = await backend.call(backend.recall.BuildContext, request, caller.recall_metadata)
    return ToolOutput(tool_results.context_to_json(reply), reply.text)


async def _call_search(backend: Backend, caller: BoundCaller, options: Options) -> ToolOutput:
    request = requests.hybrid_search(caller.user_id, options.pop("query"), **options)
    return ToolOutput(
        tool_results.ranking_to_json(await backend.call(backend.query.HybridSearch, request, caller.metadata))
    )


async def _call_lexical_search(backend: Backend, caller: BoundCaller, options: Options) -> ToolOutput:
    request = requests.lexical_search(caller.user_id, options.pop("query"), **options)
    return ToolOutput(
        tool_results.lexical_page_to_json(await backend.call(backend.query.LexicalSearch, request, caller.metadata))
    )


async def _call_semantic_search(backend: Backend, caller: BoundCaller, options: Options) -> ToolOutput:
    text, vector = options.pop("query"), options.pop("query_embedding")
    request = requests.semantic_search(caller.user_id, vector or text, **options)
    return ToolOutput(
        tool_results.ranking_to_json(await backend.call(backend.query.SemanticSearch, request, caller.metadata))
    )


async def _call_messages_list(backend: Backend, caller: BoundCaller, options: Options) -> ToolOutput:
    request = requests.list_messages(caller.user_id, **options)
    return ToolOutput(
        tool_results.page_to_json(await backend.call(backend.query.ListMessages, request, caller.metadata))
    )


async def _call_neighbors(backend: Backend, caller: BoundCaller, options: Options) -> ToolOutput:
    request = requests.neighbors(caller.user_id, **options)
    return ToolOutput(
        tool_results.neighbors_to_json(await backend.call(backend.query.GetNeighbors, request, caller.metadata))
    )


async def _call_remember(backend: Backend, caller: BoundCaller, options: Options) -> ToolOutput:
    request = requests.write([chat_message(user_id=caller.user_id, ts=options.pop("said_at", None), **options)])
    reply = await backend.call(backend.ingest.WriteMessages, request, caller.metadata)
    return ToolOutput(tool_results.write_to_json(reply), write_token=reply.write_token)


async def _call_forget(backend: Backend, caller: BoundCaller, options: Options) -> ToolOutput:
    request = requests.delete(caller.user_id, options["message_ids"])
    reply = await backend.call(backend.ingest.DeleteMessages, request, caller.metadata)
    return ToolOutput(tool_results.deletion_to_json(reply))


FORGET: Final = "forget"
TOOLS: Final[Mapping[str, Tool]] = MappingProxyType(
    {
        tool.name: tool
        for tool in (
            Tool(
                "recall",
                "Recall",
                "Answer a question about the user from stored messages. Call this tool first. The text contains the "
                "verdict (whether the messages answer the question) and the most relevant messages, word for word, "
                "oldest first, with dates and ids to cite.",
                RecallArguments,
                results.RecallOutput,
                _call_recall,
                ToolScope.RECALL,
            ),
            Tool(
                "build_context",
                "Build context",
                "Return messages for a prompt, word for word, up to a token limit: the latest messages of the current "
                "conversation, and related messages of the user's other conversations.",
                ContextArguments,
                results.ContextOutput,
                _call_build_context,
                ToolScope.RECALL,
            ),
            Tool(
                "search",
                "Search",
                "Return the messages that best answer a question, best match first. Combines lexical and semantic "
                "search with the time and the author that the question mentions.",
                SearchArguments,
                results.Messages,
                _call_search,
            ),
            Tool(
                "lexical_search",
                "Lexical search",
                'Search for words and "exact phrases", best match first, page by page. Use it for names, numbers and '
                "literal text.",
                LexicalArguments,
                results.Messages,
                _call_lexical_search,
            ),
            Tool(
                "semantic_search",
                "Semantic search",
                "Search for messages with a similar meaning in other words, most similar first.",
                SemanticArguments,
                results.Messages,
                _call_semantic_search,
            ),
            Tool(
                "messages_list",
                "List messages",
                "List messages by time, newest first, page by page.",
                ListArguments,
                results.Messages,
                _call_messages_list,
            ),
            Tool(
                "neighbors",
                "Read neighbors",
                "Return the messages before and after a message, including the message itself, oldest first.",
                NeighborArguments,
                results.Messages,
                _call_neighbors,
                waits=False,
            ),
            Tool(
                "remember",
                "Remember",
                "Store one message, word for word as it was said. Stored messages never change: to correct or withdraw "
                "earlier messages, store a new one and name them in `retracts`.",
                RememberArguments,
                results.RememberOutput,
                _call_remember,
                ToolScope.INGEST,
                waits=False,
            ),
            Tool(
                FORGET,
                "Forget",
                "Delete messages permanently. Call it only if the user asks to delete something: find the messages, "
                "show them to the user, and delete only those. To correct a message, use `remember` with `retracts`.",
                ForgetArguments,
                results.ForgetOutput,
                _call_forget,
                ToolScope.INGEST,
                waits=False,
                deletes=True,
            ),
        )
    }
)
