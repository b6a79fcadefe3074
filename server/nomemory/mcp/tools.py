"""Definitions and implementations of the MCP tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import mcp_types as types

from nomemory.client import PROMPT_MESSAGES, chat_message, requests, tool_results
from nomemory.client.messages import Turn
from nomemory.client.prompt_block import prompt_block
from nomemory.client.tool_results import Json
from nomemory.mcp import results
from nomemory.mcp.arguments import ContextArguments, RecallArguments, RememberArguments
from nomemory.mcp.backend import Backend
from nomemory.mcp.credentials import BoundCaller
from nomemory.recall.model.question import Role
from nomemory.recall.tools.argument_schema import object_schema
from nomemory.recall.tools.arguments import (
    ArgumentObject,
    HybridArguments,
    LexicalArguments,
    ListArguments,
    NeighborArguments,
    SemanticArguments,
)

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

    `writes` marks tools that need the scope `ingest`. `waits` marks tools that can wait for a write token.
    """

    name: str
    title: str
    description: str
    arguments: type[ArgumentObject]
    result: type[results.Result]
    run: Callable[[Backend, BoundCaller, Options], Awaitable[ToolOutput]]
    writes: bool = False
    waits: bool = True

    def definition(self) -> types.Tool:
        """Return the tool definition for clients."""
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=object_schema(self.arguments),
            output_schema=self.result.model_json_schema(),
            annotations=types.ToolAnnotations(
                read_only_hint=not self.writes,
                destructive_hint=False,
                idempotent_hint=not self.writes,
                open_world_hint=False,
            ),
        )


def options(arguments: ArgumentObject) -> Options:
    """Convert tool arguments to client options."""
    values = arguments.model_dump(exclude_none=True)
    filters = values.pop("filter", {})
    merged = {**values, **filters.pop("time_range", {}), **filters}
    role = merged.pop("role", Role.ANY)
    return merged if role is Role.ANY else {**merged, "role": role.value}


async def _recall(backend: Backend, caller: BoundCaller, options: Options) -> ToolOutput:
    request = requests.recall(**options, evidence_messages=PROMPT_MESSAGES)
    reply = await backend.call(backend.recall.Recall, request, caller.recall_metadata)
    block = prompt_block(reply, options["question"], options["time_zone"])
    return ToolOutput(tool_results.recall_result(reply, block.shown()), block.text())


async def _build_context(backend: Backend, caller: BoundCaller, options: Options) -> ToolOutput:
    turns: list[Turn] = [{"role": turn["role"].value, "text": turn["text"]} for turn in options.pop("turns")]
    request = requests.build_context(turns, **options)
    reply = await backend.call(backend.recall.BuildContext, request, caller.recall_metadata)
    return ToolOutput(tool_results.context(reply), reply.text)


async def _search(backend: Backend, caller: BoundCaller, options: Options) -> ToolOutput:
    request = requests.hybrid_search(caller.user_id, options.pop("query_text"), **options)
    return ToolOutput(
        tool_results.ranked_messages(await backend.call(backend.query.HybridSearch, request, caller.metadata))
    )


async def _lexical_search(backend: Backend, caller: BoundCaller, options: Options) -> ToolOutput:
    request = requests.lexical_search(caller.user_id, options.pop("query_text"), **options)
    return ToolOutput(
        tool_results.lexical_page(await backend.call(backend.query.LexicalSearch, request, caller.metadata))
    )


async def _semantic_search(backend: Backend, caller: BoundCaller, options: Options) -> ToolOutput:
    text, vector = options.pop("query_text"), options.pop("query_embedding")
    request = requests.semantic_search(caller.user_id, vector or text, **options)
    return ToolOutput(
        tool_results.ranked_messages(await backend.call(backend.query.SemanticSearch, request, caller.metadata))
    )


async def _messages_list(backend: Backend, caller: BoundCaller, options: Options) -> ToolOutput:
    request = requests.list_messages(caller.user_id, **options)
    return ToolOutput(tool_results.page(await backend.call(backend.query.ListMessages, request, caller.metadata)))


async def _neighbors(backend: Backend, caller: BoundCaller, options: Options) -> ToolOutput:
    request = requests.neighbors(caller.user_id, **options)
    return ToolOutput(tool_results.neighbors(await backend.call(backend.query.GetNeighbors, request, caller.metadata)))


async def _remember(backend: Backend, caller: BoundCaller, options: Options) -> ToolOutput:
    request = requests.write([chat_message(user_id=caller.user_id, ts=options.pop("said_at", None), **options)])
    reply = await backend.call(backend.ingest.WriteMessages, request, caller.metadata)
    return ToolOutput(tool_results.write_result(reply), write_token=reply.write_token)


TOOLS: Final[Mapping[str, Tool]] = MappingProxyType(
    {
        tool.name: tool
        for tool in (
            Tool(
                "recall",
                "Recall",
                "Recall what was said that is nearest to a question about the user: dated messages, word for word, to "
                "judge and to cite. Ask this first.",
                RecallArguments,
                results.Recalled,
                _recall,
            ),
            Tool(
                "build_context",
                "Build a context",
                "Get the messages for your prompt, word for word, within a limit of tokens: the latest of the running "
                "conversation, and those of all others that relate to its latest turns.",
                ContextArguments,
                results.Context,
                _build_context,
            ),
            Tool(
                "search",
                "Search",
                "Find the messages that answer a question, best first, by words, meaning, time and speaker together.",
                HybridArguments,
                results.Messages,
                _search,
            ),
            Tool(
                "lexical_search",
                "Search for words",
                'Find words and exact "phrases", best first, page by page. Use it for names, numbers and literal text.',
                LexicalArguments,
                results.Messages,
                _lexical_search,
            ),
            Tool(
                "semantic_search",
                "Search for meaning",
                "Find what means the same in other words, nearest first.",
                SemanticArguments,
                results.Messages,
                _semantic_search,
            ),
            Tool(
                "messages_list",
                "Read by time",
                "Read messages by time, newest first, page by page.",
                ListArguments,
                results.Messages,
                _messages_list,
            ),
            Tool(
                "neighbors",
                "Read around a message",
                "Read what was said before and after a message, oldest first.",
                NeighborArguments,
                results.Messages,
                _neighbors,
                waits=False,
            ),
            Tool(
                "remember",
                "Remember",
                "Store one message, word for word as it was said. Nothing is summed up or changed later: what corrects "
                "earlier messages names them in `retracts`.",
                RememberArguments,
                results.Remembered,
                _remember,
                writes=True,
                waits=False,
            ),
        )
    }
)
